import { describe, expect, it } from "vitest";
import { firstView } from "./use-view-box";

describe("the first view of a graph", () => {
  it("has its whole width at the top of a narrow screen", () => {
    const view = firstView({ clientWidth: 320, clientHeight: 400 }, { width: 640, height: 100 });
    expect([view.x, view.width]).toEqual([0, 640]);
    expect(view.y).toBeLessThan(0);
    expect(-view.y / view.height).toBeLessThan(0.2);
  });

  it("begins at the left when even a small scale does not hold it", () => {
    const view = firstView({ clientWidth: 320, clientHeight: 400 }, { width: 4000, height: 100 });
    expect(view.x).toBe(0);
    expect(view.width).toBeLessThan(1000);
  });

  it("is in the middle of a wide one", () => {
    const view = firstView({ clientWidth: 1000, clientHeight: 400 }, { width: 400, height: 100 });
    expect(view.x + view.width / 2).toBe(200);
    expect(view.y + view.height / 2).toBe(50);
  });
});
