import type { Explanation } from "./jobs";

/** Most jobs that one request explains. */
const MOST = 50;

/**
 * Many rows, one request: ids that are asked for within a moment are read together. null: the job is gone.
 * after: calls back a moment later, so that the rows of one draw come together.
 */
export function explainBatch(
  read: (ids: readonly string[]) => Promise<readonly Explanation[]>,
  after: (send: () => void) => void = (send) => setTimeout(send, 20),
): (id: string) => Promise<Explanation | null> {
  let asked = new Map<string, Promise<Explanation | null>>();
  let whole: Promise<ReadonlyMap<string, Explanation>> | null = null;
  const sent = async (ids: readonly string[]) => {
    const parts = Array.from({ length: Math.ceil(ids.length / MOST) }, (_, part) =>
      read(ids.slice(part * MOST, (part + 1) * MOST)),
    );
    return new Map((await Promise.all(parts)).flat().map((found) => [found.job_id, found]));
  };
  return (id) => {
    const known = asked.get(id);
    if (known) return known;
    whole ??= new Promise<void>((resolve) => after(resolve)).then(() => {
      const ids = [...asked.keys()];
      asked = new Map();
      whole = null;
      return sent(ids);
    });
    const one = whole.then((found) => found.get(id) ?? null);
    asked.set(id, one);
    return one;
  };
}
