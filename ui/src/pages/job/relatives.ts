import type { Relative } from "../../api/jobs";

export const RELATIONS = ["parent", "child", "hooked", "hook"] as const;

/** Relatives by their relation, in the order in which a job meets them; without relations that it has none of. */
export function byRelation(relatives: readonly Relative[]): [Relative["relation"], Relative[]][] {
  return RELATIONS.map((relation): [Relative["relation"], Relative[]] => [
    relation,
    relatives.filter((each) => each.relation === relation),
  ]).filter(([, some]) => some.length > 0);
}
