/** A field for a short text or a number. */

export interface TextFieldProps {
  label: string;
  value: string;
  onText(text: string): void;
  placeholder?: string;
  /** In characters; left out, as wide as the browser makes it. */
  size?: number;
  /** Which keyboard a touch screen shows. */
  kind?: "text" | "numeric" | "decimal";
  required?: boolean;
  /** The id of what says why the value is refused; absent: it is not. */
  refused_by?: string | undefined;
}

export function TextField(props: TextFieldProps) {
  const { label, value, onText, placeholder = "", size, kind = "text", required = false, refused_by } = props;
  return (
    <label class="field">
      <span>{label}</span>
      <input
        inputMode={kind}
        placeholder={placeholder}
        required={required}
        aria-invalid={refused_by !== undefined}
        aria-describedby={refused_by}
        {...(size !== undefined && { size })}
        value={value}
        onInput={({ currentTarget }) => onText(currentTarget.value)}
      />
    </label>
  );
}
