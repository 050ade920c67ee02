import { useQuery } from "@tanstack/react-query";
import { allows, type Permission, type Scope } from "../api/permissions";
import { type Features, type Me, sessionQueries } from "../api/session";

/** The caller; undefined before the first answer of GET /me. */
export function useMe(): Me | undefined {
  return useQuery(sessionQueries.me()).data;
}

export function useFeatures(): Features | undefined {
  return useQuery(sessionQueries.features()).data;
}

/** A function that says whether to offer an order: the caller holds the permission and the server is not read-only. */
export function useMayOrder(): (permission: Permission, scope?: Scope) => boolean {
  const held = useMe()?.permissions ?? [];
  const readOnly = useFeatures()?.read_only ?? false;
  return (permission, scope) => !readOnly && allows(held, permission, scope);
}

/** A function that says whether the caller may read something. */
export function useMayRead(): (permission: Permission) => boolean {
  const held = useMe()?.permissions ?? [];
  return (permission) => allows(held, permission);
}
