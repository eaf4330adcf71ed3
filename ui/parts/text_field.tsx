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
}

export function TextField(
  { label, value, onText, placeholder = "", size, kind = "text", required = false }: TextFieldProps,
) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        inputMode={kind}
        placeholder={placeholder}
        required={required}
        {...(size !== undefined && { size })}
        value={value}
        onInput={({ currentTarget }) => onText(currentTarget.value)}
      />
    </label>
  );
}
