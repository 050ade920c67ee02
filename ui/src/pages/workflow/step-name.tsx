import { Link } from "wouter";
import { jobHref } from "../../api/searches";
import type { WorkflowNode } from "../../api/workflows";

/** The name of a step as a link to its job. */
export function StepName({ node }: { node: WorkflowNode }) {
  return <Link href={jobHref(node.job_id)}>{node.name}</Link>;
}
