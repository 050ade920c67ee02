import { expect, it } from "vitest";
import type { Job } from "../../api/client";
import { changedFields, fieldsOf, objectOf } from "./edited-fields";

const job = { args: { a: 1 }, priority: 5, tags: ["x", "y"] } as unknown as Job;
const fields = fieldsOf(job);

it("sends nothing that stayed as it was", () => {
  expect(changedFields(job, fields, { a: 1 })).toBeNull();
  expect(changedFields(job, { ...fields, tags: "x, z" }, { a: 1 })).toEqual({ tags: ["x", "z"] });
  expect(changedFields(job, { ...fields, priority: "-7", runIn: " 5m " }, { a: 2 })).toEqual({
    args: { a: 2 },
    priority: -7,
    run_in: "5m",
  });
});

it("takes an object only", () => {
  expect(objectOf("[1]")).toBeNull();
  expect(objectOf("{")).toBeNull();
  expect(objectOf('{"a": 1}')).toEqual({ a: 1 });
});

it("does not send a priority that is no number", () => {
  expect(changedFields(job, { ...fields, priority: "high" }, { a: 2 })).toBeNull();
});
