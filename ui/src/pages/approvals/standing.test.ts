import { expect, it } from "vitest";
import { standingOf } from "./standing";

it("keeps the submitter from approving under four eyes, and nobody else", () => {
  const approval = { four_eyes: true, approvers: [] };
  expect(standingOf(approval, "ada", "ada")).toBe("own-job");
  expect(standingOf(approval, "ada", "bob")).toBe("may-decide");
  expect(standingOf({ ...approval, four_eyes: false }, "ada", "ada")).toBe("may-decide");
});

it("does not ask the same person twice", () => {
  expect(standingOf({ four_eyes: true, approvers: ["bob"] }, "ada", "bob")).toBe("already-approved");
});
