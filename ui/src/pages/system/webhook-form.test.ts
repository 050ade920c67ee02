import { describe, expect, it } from "vitest";
import type { Webhook } from "../../api/webhooks";
import { bodyOfForm, changeOfForm, formOf, ticked } from "./webhook-form";

const FINAL = ["completed", "completed_with_errors", "failed", "cancelled", "expired"];
const webhook = (more: Partial<Webhook>) =>
  ({
    url: "https://a.example/",
    kinds: ["*"],
    states: FINAL,
    include: [],
    description: null,
    tenant: null,
    ...more,
  }) as Webhook;

describe("formOf", () => {
  it("shows every kind and every final state as nothing chosen", () => {
    expect(formOf(webhook({}))).toMatchObject({ kinds: "", states: [] });
  });

  it("shows what is chosen", () => {
    const form = formOf(webhook({ kinds: ["report.*", "pay"], states: ["failed"], include: ["result"] }));
    expect(form).toMatchObject({ kinds: "report.*, pay", states: ["failed"], include: ["result"] });
  });
});

describe("bodyOfForm", () => {
  it("asks for every kind and the API's own states where nothing is chosen", () => {
    expect(bodyOfForm({ ...formOf(null), url: " https://a.example/ " })).toEqual({
      url: "https://a.example/",
      kinds: ["*"],
      states: null,
      include: [],
    });
  });
});

describe("changeOfForm", () => {
  it("names every final state, since null would leave the old ones", () => {
    expect(changeOfForm(formOf(webhook({ states: ["failed"] }))).states).toEqual(["failed"]);
    expect(changeOfForm({ ...formOf(webhook({ states: ["failed"] })), states: [] }).states).toEqual(FINAL);
  });
});

describe("ticked", () => {
  it("adds once and removes", () => {
    expect(ticked(["a"], "a", true)).toEqual(["a"]);
    expect(ticked(["a", "b"], "a", false)).toEqual(["b"]);
  });
});
