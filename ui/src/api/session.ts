import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";

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
};

export function logIn(token: string): Promise<Me> {
  return bodyOf(client.POST("/api/v1/auth/login", { body: { token } }));
}

export async function logOut(): Promise<void> {
  await bodyOf(client.POST("/api/v1/auth/logout"));
}
