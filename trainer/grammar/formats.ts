/** The formats of strings, as patterns. Each admits no string that the format forbids; some admit less. */

const YEAR_MONTH_DAY = (() => {
  const leap = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  const year = "[0-9]{4}";
  return `(?:${year}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|` +
    `(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|${leap}-02-29)`;
})();
const TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?" +
  "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const IPV4 = `${BYTE}(?:\\.${BYTE}){3}`;
const GROUP = "[0-9A-Fa-f]{1,4}";
/** Eight groups, or fewer with one `::`. */
const IPV6 = [
  `(?:${GROUP}:){7}${GROUP}`,
  ...Array.from({ length: 8 }, (_, before) => {
    const after = 7 - before;
    const left = before === 0 ? "" : `${GROUP}(?::${GROUP}){${before - 1}}`;
    return after === 0 ? `${left}::` : `${left}::(?:${GROUP}(?::${GROUP}){0,${after - 1}})?`;
  }).filter((_, before) => before <= 7),
].join("|");
const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,20}[A-Za-z0-9])?";
const HOSTNAME = `${LABEL}(?:\\.${LABEL}){0,7}`;
const EMAIL = `[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@${LABEL}(?:\\.${LABEL}){1,6}`;
const PATH_CHARACTER = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
const PATH = `(?:/${PATH_CHARACTER}*)*`;
const QUERY = `(?:\\?(?:${PATH_CHARACTER}|[/?])*)?(?:#(?:${PATH_CHARACTER}|[/?])*)?`;
const SCHEME = "[A-Za-z][A-Za-z0-9+.-]*";
const URI = `${SCHEME}:(?://${HOSTNAME}(?::[0-9]{1,5})?${PATH}|${PATH_CHARACTER}+${PATH})${QUERY}`;
const UUID = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";
const DURATION_TIME = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
const DURATION_DATE = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";
const DURATION = `P(?:${DURATION_DATE}(?:${DURATION_TIME})?|${DURATION_TIME}|[0-9]+W)`;
const POINTER = "(?:/(?:[^/~]|~[01])*)*";

/** The formats of strings that are enforced. */
export const STRING_FORMATS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    "date": YEAR_MONTH_DAY,
    "time": TIME,
    "date-time": `${YEAR_MONTH_DAY}T${TIME}`,
    "duration": DURATION,
    "email": EMAIL,
    "idn-email": EMAIL,
    "hostname": HOSTNAME,
    "idn-hostname": HOSTNAME,
    "ipv4": IPV4,
    "ipv6": IPV6,
    "uri": URI,
    "iri": URI,
    "uri-reference": `(?:${URI}|/${PATH_CHARACTER}+${PATH}${QUERY})`,
    "iri-reference": `(?:${URI}|/${PATH_CHARACTER}+${PATH}${QUERY})`,
    "uuid": UUID,
    "json-pointer": POINTER,
    "relative-json-pointer": `(?:0|[1-9][0-9]*)(?:#|${POINTER})`,
  }).map(([name, pattern]) => [name, `^(?:${pattern})$`]),
);

/** Formats of numbers: the bounds of integers; null: every number has the format. */
export const NUMBER_FORMATS: Readonly<Record<string, readonly [min: number, max: number] | null>> = {
  "int32": [-(2 ** 31), 2 ** 31 - 1],
  "uint32": [0, 2 ** 32 - 1],
  "int64": [-(2 ** 63), 2 ** 63],
  "uint64": [0, 2 ** 64],
  "float": null,
  "double": null,
};
