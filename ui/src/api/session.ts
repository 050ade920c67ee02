import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";
import { prefix, root } from "./root";

export type Me = Schema["MeAnswer"];
export type Features = Schema["FeaturesAnswer"];

export const sessionQueries = {
  me: () =>
    queryOptions({
      queryKey: ["session", "me"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/me", { signal })),
      staleTime: 60_000,
    }),
  features: () =>
    queryOptions({
      queryKey: ["session", "features"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/features", { signal })),
      staleTime: 5 * 60_000,
    }),
  /** Asked before the login, so it needs no session. */
  logins: () =>
    queryOptions({
      queryKey: ["session", "logins"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/auth/logins", { signal })),
      staleTime: 5 * 60_000,
    }),
};

/** The way to the identity provider, and back to the page that is open now. */
export function providerAddress(login: Schema["OIDCLoginAnswer"]): string {
  const address = new URL(`${root.origin}${prefix}/api/v1/${login.url}`);
  address.searchParams.set("return_to", window.location.pathname + window.location.search);
  return address.href;
}

export function logIn(token: string): Promise<Me> {
  return bodyOf(client.POST("/api/v1/auth/login", { body: { token } }));
}

/** Ends the session here; of one that the identity provider opened, answers where the browser ends that one too. */
export async function logOut(atProvider: boolean): Promise<string | null> {
  if (atProvider) return (await bodyOf(client.POST("/api/v1/auth/logout/oidc"))).url;
  await bodyOf(client.POST("/api/v1/auth/logout"));
  return null;
}
