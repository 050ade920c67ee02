import { describe, expect, it } from "vitest";
import { explainBatch } from "./explain-batch";
import type { Explanation } from "./jobs";

function recorded() {
  const requests: (readonly string[])[] = [];
  const read = (ids: readonly string[]) => {
    requests.push(ids);
    return Promise.resolve(ids.filter((id) => id !== "gone").map((id) => ({ job_id: id }) as Explanation));
  };
  return { requests, explain: explainBatch(read, (send) => queueMicrotask(send)) };
}

describe("explainBatch", () => {
  it("reads what is asked together with one request, each id once", async () => {
    const { requests, explain } = recorded();
    const found = await Promise.all(["a", "b", "a"].map(explain));
    expect(found.map((each) => each?.job_id)).toEqual(["a", "b", "a"]);
    expect(requests).toEqual([["a", "b"]]);
  });

  it("answers null for a job that is gone", async () => {
    const { explain } = recorded();
    expect(await Promise.all(["a", "gone"].map(explain))).toEqual([{ job_id: "a" }, null]);
  });

  it("reads again what is asked later", async () => {
    const { requests, explain } = recorded();
    await explain("a");
    await explain("a");
    expect(requests).toEqual([["a"], ["a"]]);
  });

  it("asks for no more than the API answers at once", async () => {
    const { requests, explain } = recorded();
    await Promise.all(Array.from({ length: 120 }, (_, n) => explain(String(n))));
    expect(requests.map((ids) => ids.length)).toEqual([50, 50, 20]);
  });
});
