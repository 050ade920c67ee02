import { type ComponentType, lazy, type LazyExoticComponent } from "react";
import type { Permission } from "./api/permissions";
import type { IconName } from "./parts/icon";
import { words } from "./words";

export interface PageRoute {
  path: string;
  page: LazyExoticComponent<ComponentType>;
  /** Without it the page cannot be read, and the navigation leaves it out. */
  needs?: Permission;
}

export interface NavigationEntry {
  path: string;
  label: string;
  icon: IconName;
  needs?: Permission;
  /** The key after g. */
  key: string;
}

const named = words.shell.nav;

/** The order of the navigation: what is looked at during an incident comes first. */
export const NAVIGATION: readonly NavigationEntry[] = [
  { path: "/", label: named.overview, icon: "overview", needs: "workers:view", key: "o" },
  { path: "/jobs", label: named.jobs, icon: "jobs", needs: "jobs:read", key: "j" },
  { path: "/approvals", label: named.approvals, icon: "approvals", needs: "jobs:read", key: "a" },
  { path: "/failures", label: named.failures, icon: "failures", needs: "jobs:read", key: "f" },
  { path: "/workflows", label: named.workflows, icon: "workflows", needs: "jobs:read", key: "d" },
  { path: "/schedules", label: named.schedules, icon: "schedules", needs: "schedules:view", key: "s" },
  { path: "/lanes", label: named.lanes, icon: "lanes", needs: "workers:view", key: "l" },
  { path: "/workers", label: named.workers, icon: "workers", needs: "workers:view", key: "w" },
  { path: "/limits", label: named.limits, icon: "limits", needs: "workers:view", key: "m" },
  { path: "/incident", label: named.incident, icon: "incident", needs: "workers:view", key: "i" },
  { path: "/system", label: named.system, icon: "system", key: "y" },
];

/** Each page is a chunk of its own, loaded when it is first opened. */
export const ROUTES: readonly PageRoute[] = [
  { path: "/", page: lazy(() => import("./pages/overview")), needs: "workers:view" },
  { path: "/jobs", page: lazy(() => import("./pages/jobs")), needs: "jobs:read" },
  { path: "/jobs/new", page: lazy(() => import("./pages/new-job")), needs: "jobs:submit" },
  { path: "/jobs/:id", page: lazy(() => import("./pages/job")), needs: "jobs:read" },
  { path: "/approvals", page: lazy(() => import("./pages/approvals")), needs: "jobs:read" },
  { path: "/failures", page: lazy(() => import("./pages/failures")), needs: "jobs:read" },
  { path: "/failures/:fingerprint", page: lazy(() => import("./pages/failures")), needs: "jobs:read" },
  { path: "/workflows", page: lazy(() => import("./pages/workflows")), needs: "jobs:read" },
  { path: "/workflows/:id", page: lazy(() => import("./pages/workflow")), needs: "jobs:read" },
  { path: "/schedules", page: lazy(() => import("./pages/schedules")), needs: "schedules:view" },
  { path: "/schedules/:name", page: lazy(() => import("./pages/schedule")), needs: "schedules:view" },
  { path: "/lanes", page: lazy(() => import("./pages/lanes")), needs: "workers:view" },
  { path: "/lanes/:name", page: lazy(() => import("./pages/lane")), needs: "workers:view" },
  { path: "/workers", page: lazy(() => import("./pages/workers")), needs: "workers:view" },
  { path: "/limits", page: lazy(() => import("./pages/limits")), needs: "workers:view" },
  { path: "/incident", page: lazy(() => import("./pages/incident")), needs: "workers:view" },
  { path: "/system", page: lazy(() => import("./pages/system")) },
];
