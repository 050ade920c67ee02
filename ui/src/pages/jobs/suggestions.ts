import { STATES, quoted } from "./search-terms";

/** Names that complete a term. Each list is short enough to be kept in the browser. */
export interface Names {
  kinds: readonly string[];
  lanes: readonly string[];
}

export const FIELDS = [
  "state:",
  "kind:",
  "lane:",
  "created:",
  "finished:",
  "duration:",
  "error:",
  "tag:",
  "by:",
  "tenant:",
  "worker:",
  "phase:",
  "priority:",
  "attempt:",
  "args.",
  "ref.",
  "id:",
] as const;

const AGES = ["<15m", "<1h", "<24h", "<7d", ">1h"];
const DURATIONS = [">1s", ">10s", ">1m", ">10m", ">1h"];
const MOST = 10;

function valuesOf(field: string, names: Names): readonly string[] {
  switch (field) {
    case "state":
      return STATES;
    case "kind":
      return names.kinds;
    case "lane":
      return names.lanes;
    case "created":
    case "finished":
      return AGES;
    case "duration":
      return DURATIONS;
    default:
      return [];
  }
}

/** What may complete a word: fields first, then values of its field. A term keeps its minus and its earlier values. */
export function suggestionsFor(word: string, names: Names): string[] {
  const [, minus = "", field, rest] = /^(-?)([a-z]+):(.*)$/.exec(word) ?? [];
  if (field === undefined || rest === undefined) {
    const bare = word.replace(/^-/, "");
    const sign = word.startsWith("-") ? "-" : "";
    const fields = FIELDS.filter((each) => each.startsWith(bare));
    const kinds = bare.length > 1 ? names.kinds.filter((kind) => kind.includes(bare)) : [];
    return [...fields.map((each) => sign + each), ...kinds.map((kind) => `${sign}kind:${quoted(kind)}`)].slice(0, MOST);
  }
  const typed = rest.slice(rest.lastIndexOf(",") + 1);
  const before = `${minus}${field}:${rest.slice(0, rest.length - typed.length)}`;
  const wanted = typed.toLowerCase().replace(/^"/, "");
  const verbatim = ["created", "finished", "duration"].includes(field);
  return valuesOf(field, names)
    .filter((value) => value.toLowerCase().includes(wanted) && value !== typed)
    .sort((a, b) => Number(b.startsWith(wanted)) - Number(a.startsWith(wanted)))
    .slice(0, MOST)
    .map((value) => before + (verbatim ? value : quoted(value)));
}
