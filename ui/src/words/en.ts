import { approvals } from "./en/approvals";
import { common } from "./en/common";
import { failures } from "./en/failures";
import { incident } from "./en/incident";
import { job } from "./en/job";
import { jobs } from "./en/jobs";
import { lanes } from "./en/lanes";
import { limits } from "./en/limits";
import { newJob } from "./en/new-job";
import { overview } from "./en/overview";
import { schedules } from "./en/schedules";
import { shell } from "./en/shell";
import { system } from "./en/system";
import { webhooks } from "./en/webhooks";
import { workers } from "./en/workers";
import { workflows } from "./en/workflows";

export const en = {
  ...common,
  shell,
  overview,
  jobs,
  job,
  newJob,
  approvals,
  failures,
  lanes,
  workers,
  schedules,
  workflows,
  limits,
  system,
  webhooks,
  incident,
};
