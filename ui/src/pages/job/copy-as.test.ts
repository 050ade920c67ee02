import { expect, it } from "vitest";
import type { Job } from "../../api/client";
import { asCommand, asCurl, asPython, pythonOf } from "./copy-as";

const job = {
  id: "0NTC",
  kind: "shop.refund",
  args: { order: 7, note: "it's late", ok: true, of: null },
} as unknown as Job;

it("writes values as Python does", () => {
  expect(pythonOf({ a: [1, null, true], "b c": "x" })).toBe('{"a": [1, None, True], "b c": "x"}');
});

it("writes a call, a command and a request that enqueue the same job", () => {
  expect(asPython(job)).toBe('await refund.enqueue(order=7, note="it\'s late", ok=True, of=None)');
  expect(asCommand(job)).toBe(
    `rowlock enqueue shop.refund --args '{"order":7,"note":"it'\\''s late","ok":true,"of":null}'`,
  );
  expect(asCurl(job, "http://h/api/v1")).toContain(`-d '{"kind":"shop.refund"`);
});

it("passes arguments that are no names of Python as a mapping", () => {
  expect(asPython({ ...job, args: { "a-b": 1 } })).toBe('await refund.enqueue(**{"a-b": 1})');
});
