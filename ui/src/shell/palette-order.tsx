import type { LaneLoad, LaneOrder } from "../api/lanes";
import { LaneOrderDialog } from "../pages/lanes/lane-orders";
import { BulkOrderDialog } from "../parts/bulk-order";

/** An order that was chosen in the palette. */
export type ChosenOrder = { what: "lane"; lane: LaneLoad; order: LaneOrder } | { what: "retry-failed" };

/** Asks before the order is given; loads with the first one. */
export default function PaletteOrder({ chosen, onClose }: { chosen: ChosenOrder; onClose: () => void }) {
  if (chosen.what === "lane") return <LaneOrderDialog lane={chosen.lane} asked={chosen.order} onClose={onClose} />;
  return <BulkOrderDialog action="retry" target={{ search: "state:failed" }} onClose={onClose} />;
}
