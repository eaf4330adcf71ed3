/** An interpreter of chat templates that counts every operation before the library performs it. */

import { type Environment, Interpreter, type parse } from "@huggingface/jinja";
import { CHARS_PER_ITEM_STEP, spendOnBinary, spendOnCall } from "./template_costs.ts";
import { checkText, countOf, type TemplateBudget } from "./template_limits.ts";

type Program = ReturnType<typeof parse>;
type Statement = NonNullable<Parameters<Interpreter["evaluate"]>[0]>;
type Value = ReturnType<Interpreter["evaluate"]>;
type FunctionValue = Value & { type: "FunctionValue"; value: (args: Value[], scope: Environment) => Value };

/** A node of the syntax tree, whose types the library does not export further. */
type Node = { type: string } & Record<string, unknown>;

/** Steps of a loop's iteration besides those of its body: the library creates a scope for each. */
const ROUND_STEPS = 4;
/** Steps of an undefined name: the library detects it by an exception. */
const UNKNOWN_STEPS = 10;

/** Facts about a template before it is rendered. */
export interface CheckedProgram {
  program: Program;
  /** Nodes whose value is written out. */
  written: WeakSet<object>;
  /** Nodes whose value is iterated. */
  iterated: WeakSet<object>;
  /** Macros with their number of nodes: the library visits these again at every definition. */
  sizes: WeakMap<object, number>;
}

/** The fields of a node with the statements that it writes out. */
const BLOCKS = ["body", "alternate", "defaultBlock"];

/** Visits a syntax tree once. */
export function checkProgram(program: Program): CheckedProgram {
  const checked: CheckedProgram = {
    program,
    written: new WeakSet(),
    iterated: new WeakSet(),
    sizes: new WeakMap(),
  };
  visit(program, checked);
  return checked;
}

/** Returns the number of nodes. */
function visit(node: unknown, checked: CheckedProgram): number {
  if (node === null || typeof node !== "object") return 0;
  if (node instanceof Map) return visit([...node], checked);
  if (Array.isArray(node)) return node.reduce((sum: number, child) => sum + visit(child, checked), 0);
  const { type, ...fields } = node as Node;
  for (const name of BLOCKS) {
    const block = fields[name];
    if (Array.isArray(block)) { for (const statement of block) checked.written.add(statement); }
  }
  if (type === "For") {
    const { iterable, body } = fields as { iterable: Node; body: unknown[] };
    checked.iterated.add(iterable.type === "SelectExpression" ? iterable.lhs as object : iterable);
    // An empty body would evaluate nothing, so its iterations would not be counted.
    if (body.length === 0) body.push({ type: "StringLiteral", value: "" });
  }
  if (type === "SpreadExpression" || type === "KeywordSpreadExpression") {
    checked.iterated.add(fields.argument as object);
  }
  const size = 1 + visit(Object.values(fields), checked);
  if (type === "Macro" || type === "CallStatement") checked.sizes.set(node, size);
  return size;
}

/** An evaluated operand, to replace its expression. */
const evaluated = (value: Value): Node => ({ type: "Evaluated", value });

export class BoundedInterpreter extends Interpreter {
  readonly #budget: TemplateBudget;
  readonly #checked: CheckedProgram;

  constructor(environment: Environment, checked: CheckedProgram, budget: TemplateBudget) {
    super(environment);
    this.#checked = checked;
    this.#budget = budget;
    const namespace = environment.lookupVariable("namespace");
    const copied = (args: readonly Value[]) => {
      for (const arg of args) budget.spend(countOf(arg));
    };
    environment.setVariable("namespace", counted(namespace as FunctionValue, copied));
  }

  /** @throws {TemplateLimitError} */
  override evaluate(statement: Statement | undefined, environment: Environment): Value {
    if (!statement) return super.evaluate(statement, environment);
    const node = statement as unknown as Node;
    if (node.type === "Evaluated") return node.value as Value;
    const budget = this.#budget, checked = this.#checked;
    budget.spend(1 + (checked.sizes.get(statement) ?? 0));
    const value = budget.within(() => this.#evaluate(node, environment));
    if (typeof value.value === "string") checkText(value.value.length);
    if (checked.iterated.has(statement)) budget.spend(ROUND_STEPS * countOf(value));
    // A block's text was counted when it was written.
    if (checked.written.has(statement) && !BLOCKS.some((name) => name in node)) {
      checkText(budget.spendOn(value).chars);
    }
    return value;
  }

  #evaluate(node: Node, environment: Environment): Value {
    const operand = (name: string) => this.#child(node[name], environment);
    switch (node.type) {
      case "Identifier": {
        const value = this.#library(node, environment);
        if (value.type === "UndefinedValue") this.#budget.spend(UNKNOWN_STEPS);
        return value;
      }
      case "BinaryExpression": {
        const { value: operator } = node.operator as { value: string };
        if (operator === "and" || operator === "or") return this.#library(node, environment);
        const left = operand("left"), right = operand("right");
        spendOnBinary(this.#budget, operator, [left, right]);
        return this.#library({ ...node, left: evaluated(left), right: evaluated(right) }, environment);
      }
      case "TestExpression": {
        const value = operand("operand");
        if (typeof value.value === "string") this.#budget.spendChars(value.value.length);
        return this.#library({ ...node, operand: evaluated(value) }, environment);
      }
      case "FilterExpression":
        return this.#filter(operand("operand"), node.filter as Node, environment);
      case "FilterStatement": {
        const block = this.#library({ type: "Program", body: node.body }, environment);
        return this.#filter(block, node.filter as Node, environment);
      }
      case "MemberExpression":
        return this.#member(node, operand("object"), environment);
      case "ObjectLiteral": {
        const value = this.#library(node, environment);
        for (const key of (value.value as Map<string, Value>).keys()) this.#budget.spendChars(key.length);
        return value;
      }
      default:
        return this.#library(node, environment);
    }
  }

  /** The library's value of a node. */
  #library(node: Node, environment: Environment): Value {
    return super.evaluate(node as unknown as Statement, environment);
  }

  #child(node: unknown, environment: Environment): Value {
    return this.evaluate(node as Statement, environment);
  }

  #filter(operand: Value, filter: Node, environment: Environment): Value {
    const is_call = filter.type === "CallExpression";
    const name = String((is_call ? filter.callee as Node : filter).value);
    const { nodes, values } = this.#arguments(is_call ? filter.args as Node[] : [], environment);
    spendOnCall(this.#budget, { name, operand, args: values });
    const applied = is_call ? { ...filter, args: nodes } : filter;
    return this.#library(
      { type: "FilterExpression", operand: evaluated(operand), filter: applied },
      environment,
    );
  }

  /** Evaluates arguments in the library's order, named ones last, and replaces the expressions with their values. */
  #arguments(args: readonly Node[], environment: Environment): { nodes: Node[]; values: Value[] } {
    const nodes = [...args], values: Value[] = [];
    for (const named of [false, true]) {
      for (const [i, arg] of args.entries()) {
        if (arg.type.startsWith("Keyword") !== named) continue;
        const field =
          ({ KeywordArgumentExpression: "value", SpreadExpression: "argument" } as Record<string, string>)[
            arg.type
          ] ?? (named ? "argument" : null);
        const value = this.#child(field === null ? arg : arg[field], environment);
        values.push(value);
        // Some filters require an argument to be a string literal.
        if (field !== null) nodes[i] = { ...arg, [field]: evaluated(value) };
        else if (arg.type !== "StringLiteral") nodes[i] = evaluated(value);
      }
    }
    return { nodes, values };
  }

  #member(node: Node, object: Value, environment: Environment): Value {
    const budget = this.#budget, property = node.property as Node, is_text = typeof object.value === "string";
    let member: Node = { ...node, object: evaluated(object) };
    if (node.computed && property.type === "SliceExpression") {
      budget.spend(countOf(object) / (is_text ? CHARS_PER_ITEM_STEP : 1));
    } else if (node.computed) {
      const key = this.#child(property, environment);
      if (is_text) budget.spendChars(countOf(object));
      if (typeof key.value === "string") budget.spendChars(key.value.length);
      member = { ...member, property: evaluated(key) };
    }
    const value = this.#library(member, environment);
    if (value.type !== "FunctionValue") return value;
    const name = String(property.value);
    return counted(value as FunctionValue, (args) => spendOnCall(budget, { name, operand: object, args }));
  }
}

/** A function of the library whose cost is spent before it is called. */
function counted(called: FunctionValue, spend: (args: readonly Value[]) => void): FunctionValue {
  const { value } = called;
  return Object.assign(Object.create(Object.getPrototypeOf(called)), called, {
    value(args: Value[], scope: Environment) {
      spend(args);
      return value(args, scope);
    },
  });
}
