// Fails when the built dashboard has grown beyond its budget: kilobytes after gzip, as a browser downloads them.
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

const built = new URL("../../src/rowlock/ui_dist/", import.meta.url);
const MOST_AT_FIRST = 180;
const MOST_PER_CHUNK = 60;

const sizeOf = (name) => gzipSync(readFileSync(new URL(name, built))).length / 1000;
const page = readFileSync(new URL("index.html", built), "utf8");
const atFirst = [...page.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map((match) => match[1]);
const later = readdirSync(new URL("assets/", built))
  .map((name) => `assets/${name}`)
  .filter((name) => /\.(js|css)$/.test(name) && !atFirst.includes(name));

const first = atFirst.reduce((sum, name) => sum + sizeOf(name), 0);
const largest = later.map((name) => [name, sizeOf(name)]).sort((a, b) => b[1] - a[1]);
const tooLarge = largest.filter(([, size]) => size > MOST_PER_CHUNK);

console.log(`at first: ${first.toFixed(1)} kB of ${MOST_AT_FIRST} kB (gzip)`);
console.log(
  `largest later: ${largest[0]?.[0] ?? "none"}, ${(largest[0]?.[1] ?? 0).toFixed(1)} kB of ${MOST_PER_CHUNK} kB`,
);
if (first > MOST_AT_FIRST || tooLarge.length > 0) {
  for (const [name, size] of tooLarge) console.error(`too large: ${name}, ${size.toFixed(1)} kB`);
  console.error("Load less at first: import a page or a part with lazy(), or leave a dependency out.");
  process.exit(1);
}
