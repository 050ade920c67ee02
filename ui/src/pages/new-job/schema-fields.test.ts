import { describe, expect, it } from "vitest";
import { argsOf, fieldsOf } from "./schema-fields";

const schema = {
  $defs: { Colour: { enum: ["red", "green"], type: "string" }, Place: { type: "object", properties: {} } },
  properties: {
    order: { type: "integer" },
    amount: { type: "number", default: 1.5 },
    colour: { $ref: "#/$defs/Colour" },
    at: { anyOf: [{ type: "string", format: "date-time" }, { type: "null" }], default: null },
    place: { $ref: "#/$defs/Place" },
    urgent: { type: "boolean", default: false },
    password: { type: "string", format: "password", writeOnly: true },
  },
  required: ["order", "colour", "place", "password"],
};
const fields = fieldsOf(schema);
const field = (name: string) => fields.find((each) => each.name === name);

describe("fieldsOf", () => {
  it("chooses a widget for each argument", () => {
    expect(fields.map((each) => [each.name, each.widget])).toEqual([
      ["order", "integer"],
      ["amount", "number"],
      ["colour", "choice"],
      ["at", "date-time"],
      ["place", "json"],
      ["urgent", "boolean"],
      ["password", "secret"],
    ]);
  });

  it("knows choices, defaults and what may be left out", () => {
    expect(field("colour")?.choices).toEqual(['"red"', '"green"']);
    expect(field("amount")).toMatchObject({ initial: "1.5", required: false });
    expect(field("at")).toMatchObject({ nullable: true, required: false });
    expect(field("urgent")?.initial).toBe("false");
  });

  it("takes a schema without properties for one without arguments", () => {
    expect(fieldsOf({ type: "object" })).toEqual([]);
  });
});

describe("argsOf", () => {
  it("reads every text as its type and leaves out what is empty and optional", () => {
    const texts = { order: "7", amount: "", colour: '"red"', place: '{"x": 1}', urgent: "true", password: "s" };
    expect(argsOf(fields, texts)).toEqual({
      args: { order: 7, colour: "red", place: { x: 1 }, urgent: true, password: "s" },
      errors: {},
    });
  });

  it("says what is wrong with each text", () => {
    expect(argsOf(fields, { order: "7.5", colour: "", place: "{", password: "x" }).errors).toEqual({
      order: "notInteger",
      colour: "required",
      place: "notJson",
    });
  });
});
