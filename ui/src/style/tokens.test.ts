import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const sheet = readFileSync("src/style/tokens.css", "utf8");
const tokens = new Map(
  [...sheet.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);/g)].map(
    ([, name = "", light = "", dark = ""]) => [name, { light, dark }] as const,
  ),
);

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [lighter = 0, darker = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (lighter + 0.05) / (darker + 0.05);
}

const STATES = [
  "pending",
  "blocked",
  "queued",
  "running",
  "completed",
  "completed-with-errors",
  "failed",
  "cancelled",
  "expired",
];
const TEXT_ON: [string, string][] = [
  ...["ink", "ink-soft", "ink-faint", "accent", "danger", "warn", "good", ...STATES].flatMap((text) =>
    ["paper", "surface", "raised", "sunken"].map((ground): [string, string] => [text, ground]),
  ),
  ...[...STATES, "danger", "warn", "good", "accent"].map((name): [string, string] => [name, `${name}-soft`]),
  ["ink", "accent-soft"],
  ["ink-soft", "accent-soft"],
  ["ink-faint", "accent-soft"],
  ["ink", "warn-soft"],
  ["ink", "danger-soft"],
  ["on-accent", "accent"],
  ["on-accent", "accent-strong"],
  ["on-danger", "danger"],
];

describe.each(["light", "dark"] as const)("the %s theme", (theme) => {
  const colour = (name: string) => {
    const found = tokens.get(name);
    if (!found) throw new Error(`tokens.css has no --${name}`);
    return found[theme];
  };

  it.each(TEXT_ON)("has readable %s on %s", (text, ground) => {
    expect(contrast(colour(text), colour(ground))).toBeGreaterThanOrEqual(4.5);
  });

  it.each(["line-strong", "focus", "accent"])("shows --%s against the page", (name) => {
    expect(contrast(colour(name), colour("paper"))).toBeGreaterThanOrEqual(3);
    expect(contrast(colour(name), colour("surface"))).toBeGreaterThanOrEqual(3);
  });
});
