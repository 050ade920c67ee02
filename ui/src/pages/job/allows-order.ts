import type { Job } from "../../api/client";
import { WAITING } from "../../api/jobs";

/** Orders that change a job, or many at once. */
export type JobOrder = "approve" | "reject" | "cancel" | "stop" | "retry" | "delete" | "priority";

const FINAL: readonly Job["state"][] = ["completed", "completed_with_errors", "failed", "cancelled", "expired"];

/** Whether the state of a job allows an order. */
export function allowsOrder(state: Job["state"], order: JobOrder): boolean {
  switch (order) {
    case "approve":
    case "reject":
      return state === "pending";
    case "cancel":
      return state === "running" || WAITING.includes(state);
    case "stop":
      return state === "running";
    case "priority":
      return WAITING.includes(state);
    case "retry":
    case "delete":
      return FINAL.includes(state);
  }
}
