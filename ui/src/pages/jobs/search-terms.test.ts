import { describe, expect, it } from "vitest";
import { mayMatch, quoted, replaced, stateOf, termsOf, withoutTerm, withState } from "./search-terms";

describe("termsOf", () => {
  it("keeps quoted texts together", () => {
    expect(termsOf('kind:a  error:"no such file" "two words"')).toEqual([
      "kind:a",
      'error:"no such file"',
      '"two words"',
    ]);
  });

  it("takes an open quote to the end", () => {
    expect(termsOf('a error:"no such')).toEqual(["a", 'error:"no such']);
  });
});

describe("the state of a search", () => {
  it("is the one that it names", () => {
    expect(stateOf("kind:a state:failed")).toBe("failed");
    expect(stateOf("state:failed,running")).toBeNull();
    expect(stateOf("-state:failed")).toBeNull();
    expect(stateOf("kind:a")).toBeNull();
  });

  it("is replaced and taken away without touching other terms", () => {
    expect(withState('state:failed error:"a b"', "running")).toBe('state:running error:"a b"');
    expect(withState("kind:a -state:expired", null)).toBe("kind:a");
  });
});

it("leaves out one term", () => {
  expect(withoutTerm("a b a", "a")).toBe("b a");
});

it("replaces a part of the search and goes on behind it", () => {
  expect(replaced("state:fai kind:a", { start: 0, end: 9, text: "state:failed" })).toEqual({
    search: "state:failed kind:a",
    caret: 13,
  });
  expect(replaced("ki", { start: 0, end: 2, text: "kind:" })).toEqual({ search: "kind:", caret: 5 });
});

it("quotes what a search would read otherwise", () => {
  expect(quoted("report.daily")).toBe("report.daily");
  expect(quoted("-minus")).toBe('"-minus"');
  expect(quoted('say "no"')).toBe('"say \\"no\\""');
});

describe("mayMatch", () => {
  const job = { state: "failed" as const, kind: "report.daily", lane: null };

  it("judges state, kind and lane", () => {
    expect(mayMatch("state:failed,running kind:report.*", job)).toBe(true);
    expect(mayMatch("state:queued", job)).toBe(false);
    expect(mayMatch("-kind:report.*", job)).toBe(false);
    expect(mayMatch("lane:bulk", job)).toBe(true);
  });

  it("does not judge what the feed leaves out", () => {
    expect(mayMatch("tag:eu args.x:1", job)).toBe(true);
  });
});
