import { expect, it } from "vitest";
import type { Job } from "../../api/client";
import { csvOf } from "./export-file";

const job = {
  id: "0NTC-HNZF-FNQJ-NV",
  kind: '=HYPERLINK("x")',
  state: "failed",
  priority: -5,
  attempt: 1,
  tags: ["a", "b"],
  args: { name: "Ada" },
  errors: null,
} as unknown as Job;

it("writes a line for each job, with JSON for what is no text", () => {
  const [head, line, end] = csvOf([job]).split("\r\n");
  expect(head?.startsWith("id,kind,state,priority")).toBe(true);
  expect(line).toContain('"{""name"":""Ada""}"');
  expect(line).toContain('"[""a"",""b""]"');
  expect(end).toBe("");
});

it("lets no spreadsheet run a cell, and leaves numbers as they are", () => {
  const line = csvOf([job]).split("\r\n")[1] ?? "";
  expect(line).toContain(`"'=HYPERLINK(""x"")"`);
  expect(line).toContain(",-5,");
});
