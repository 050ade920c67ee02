import { describe, expect, it } from "vitest";
import { allows } from "./permissions";

describe("allows", () => {
  it("takes a permission without a scope for everything", () => {
    expect(allows(["jobs:cancel"], "jobs:cancel", { kind: "report", lane: "bulk" })).toBe(true);
    expect(allows(["jobs:cancel"], "jobs:retry")).toBe(false);
  });

  it("compares a scope with the kind and the lane of the job", () => {
    const held = ["jobs:cancel@kind=report.*,lane=bulk"];
    expect(allows(held, "jobs:cancel", { kind: "report.daily", lane: "bulk" })).toBe(true);
    expect(allows(held, "jobs:cancel", { kind: "report.daily", lane: "mail" })).toBe(false);
    expect(allows(held, "jobs:cancel", { kind: "invoice", lane: "bulk" })).toBe(false);
  });

  it("shows an order whose scope is not known yet", () => {
    expect(allows(["jobs:submit@kind=report.*"], "jobs:submit")).toBe(true);
  });

  it("does not take a longer name for the permission", () => {
    expect(allows(["jobs:read_all"], "jobs:read")).toBe(false);
    expect(allows(["jobs:read_all@lane=a"], "jobs:read")).toBe(false);
  });
});
