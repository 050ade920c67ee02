import { expect, it } from "vitest";
import { permissionsOf } from "./new-token";

it("keeps the scope of a permission together", () => {
  expect(permissionsOf("jobs:read, jobs:cancel@kind=report.*,lane=bulk\nworkers:view")).toEqual([
    "jobs:read",
    "jobs:cancel@kind=report.*,lane=bulk",
    "workers:view",
  ]);
  expect(permissionsOf("  ")).toEqual([]);
});
