import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";

export type Suggestion = Schema["SuggestionAnswer"];
export type SavedView = Schema["ViewAnswer"];
export type NewView = Schema["NewView"];

export const searchQueries = {
  suggest: (q: string, caret: number) =>
    queryOptions({
      queryKey: ["search", "suggest", q, caret],
      queryFn: ({ signal }) =>
        bodyOf(client.GET("/api/v1/search/suggest", { params: { query: { q, cursor_position: caret } }, signal })),
      staleTime: 30_000,
      retry: false,
    }),
  /** Jobs in each state that the rest of the search finds. */
  counts: (q: string) =>
    queryOptions({
      queryKey: ["search", "counts", q],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/search/counts", { params: { query: { q } }, signal })),
      retry: false,
    }),
  views: () =>
    queryOptions({
      queryKey: ["search", "views"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/views", { signal })),
      staleTime: 60_000,
    }),
};

export const createView = (body: NewView): Promise<SavedView> => bodyOf(client.POST("/api/v1/views", { body }));

export const deleteView = async (view: SavedView): Promise<SavedView> => {
  await bodyOf(client.DELETE("/api/v1/views/{view_id}", { params: { path: { view_id: Number(view.id) } } }));
  return view;
};
