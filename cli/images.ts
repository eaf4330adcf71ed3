/** `svc images build`: makes the images of the profiles, with or without an image registry. */

import type { Command } from "commander";
import { basename, join } from "node:path";
import {
  askEngine,
  type ContainerEngine,
  engineReason,
  findEngine,
} from "../agent/environment/container_engine.ts";
import { profileImage } from "../agent/environment/container_image.ts";
import {
  BASE_IMAGE,
  containerfile,
  debianArguments,
  IMAGE_PROFILES,
  IMAGE_RECIPES,
  type ImageProfile,
  IMPORT_CHANGES,
} from "../agent/environment/image_recipes.ts";
import { ServiceError } from "../core/errors.ts";
import type { CliContext } from "./context.ts";

/** The time for a build, which loads packages. */
const BUILD_TIMEOUT_MS = 1_800_000;

/** Where an image's files come from. */
type ImageSource = "registry" | "debian";

interface Build {
  engine: ContainerEngine;
  profile: ImageProfile;
  /** The program that goes into the image of profile typescript. */
  deno: string;
}

/** Makes an image in a temporary folder. @throws {ServiceError} `infrastructure_failed`. */
async function buildImage(build: Build, source: ImageSource): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-image-" });
  try {
    const { engine, profile, deno } = build, recipe = IMAGE_RECIPES[profile], name = profileImage(profile);
    if (recipe.has_deno) {
      await Deno.copyFile(deno, join(folder, "deno"));
      await Deno.chmod(join(folder, "deno"), 0o755);
    }
    if (source === "registry") {
      await Deno.writeTextFile(join(folder, "Containerfile"), containerfile(recipe));
      const file = ["-f", join(folder, "Containerfile")];
      return await succeed(engine.program, ["build", "-t", name, ...file, folder], name);
    }
    const tar = join(folder, "root.tar");
    await succeed("mmdebstrap", debianArguments(recipe, { tar, deno: join(folder, "deno") }), name);
    const changes = IMPORT_CHANGES.flatMap((change) => ["--change", change]);
    await succeed(engine.program, ["import", ...changes, tar, name], name);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function succeed(program: string, args: string[], image: string): Promise<void> {
  const answer = await askEngine(program, args, { timeout_ms: BUILD_TIMEOUT_MS });
  if (answer.code === 0) return;
  throw new ServiceError(
    "infrastructure_failed",
    `Cannot build the image ${image}: ${program} failed: ${engineReason(answer)}`,
  );
}

/** The source that was asked for, else the one that works here, with the reason. */
async function sourceOf(engine: ContainerEngine, from: ImageSource | undefined): Promise<ChosenSource> {
  return from === undefined ? await chooseSource(engine) : { source: from, reason: "--from says so" };
}

interface ChosenSource {
  source: ImageSource;
  reason: string;
}

/** A registry that gives the base image is used, else the Debian packages of this machine's mirror. */
async function chooseSource(engine: ContainerEngine): Promise<ChosenSource> {
  const pulled = await askEngine(engine.program, ["pull", BASE_IMAGE], { timeout_ms: BUILD_TIMEOUT_MS });
  return pulled.code === 0
    ? { source: "registry", reason: `the registry has ${BASE_IMAGE}` }
    : { source: "debian", reason: `${BASE_IMAGE} cannot be had (${engineReason(pulled)})` };
}

/** Deno's program for the image, whose tag names the version on which this program runs. @throws {ServiceError} */
async function denoProgram(given: string | undefined): Promise<string> {
  const refused = (reason: string) =>
    new ServiceError(
      "config_invalid",
      `Cannot build the image of profile typescript: ${reason}; name the program of Deno ${Deno.version.deno} with --deno`,
    );
  if (given === undefined) {
    const own = Deno.execPath();
    if (/^deno(\.exe)?$/.test(basename(own))) return own;
    throw refused("this program is no deno");
  }
  const version = await versionOf(given);
  if (version === null) throw refused(`${given} does not say which Deno it is`);
  if (version !== Deno.version.deno) throw refused(`${given} is Deno ${version}`);
  return given;
}

/** The version that a program of Deno tells; null: none. */
async function versionOf(program: string): Promise<string | null> {
  try {
    const { stdout } = await new Deno.Command(program, { args: ["--version"], stdin: "null" }).output();
    return /^deno (\S+)/.exec(new TextDecoder().decode(stdout))?.[1] ?? null;
  } catch {
    return null;
  }
}

/** Adds the command. */
export function addImagesCommand(program: Command, { terminal }: CliContext): void {
  const images = program.command("images").description("about the images of containers");
  images.command("build").description("make the images of the profiles python and typescript")
    .argument("[profiles...]", "python, typescript; both unless named")
    .option(
      "--from <source>",
      "registry (a Containerfile) or debian (packages, by mmdebstrap); else what works",
    )
    .option("--deno <path>", "Deno's program for profile typescript; else the one that runs svc")
    .action(async (named: string[], options: { from?: string; deno?: string }) => {
      const profiles = named.length > 0 ? named : [...IMAGE_PROFILES];
      const unknown = profiles.find((name) => !IMAGE_PROFILES.some((profile) => profile === name));
      if (unknown !== undefined) {
        throw new ServiceError(
          "config_invalid",
          `Cannot build ${unknown}: the profiles are python, typescript`,
        );
      }
      const { from } = options;
      if (from !== undefined && from !== "registry" && from !== "debian") {
        throw new ServiceError("config_invalid", `Cannot build from ${from}: --from is registry or debian`);
      }
      const has_deno = (profiles as ImageProfile[]).some((profile) => IMAGE_RECIPES[profile].has_deno);
      const deno = has_deno ? await denoProgram(options.deno) : "";
      const engine = await findEngine();
      terminal.line(`engine: ${engine.program} (${engine.name} ${engine.version})`);
      const { source, reason } = await sourceOf(engine, from);
      terminal.line(`source: ${source === "debian" ? "Debian packages" : "the registry"}: ${reason}`);
      for (const profile of profiles as ImageProfile[]) {
        await buildImage({ engine, profile, deno }, source);
        terminal.line(`built ${profileImage(profile)}`);
      }
    });
}
