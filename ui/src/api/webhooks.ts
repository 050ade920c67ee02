import { queryOptions } from "@tanstack/react-query";
import { bodyOf, client, type Schema } from "./client";

export type Webhook = Schema["WebhookAnswer"];
export type WebhookBody = Schema["WebhookBody"];
export type WebhookChange = Schema["WebhookChange"];
export type WebhookDelivery = Schema["WebhookDeliveryAnswer"];
export type NewWebhook = Schema["NewWebhookAnswer"];

const at = (id: string) => ({ path: { webhook_id: Number(id) } });

export const webhookQueries = {
  list: () =>
    queryOptions({
      queryKey: ["webhooks", "list"],
      queryFn: ({ signal }) => bodyOf(client.GET("/api/v1/webhooks", { signal })),
    }),
  deliveries: (id: string) =>
    queryOptions({
      queryKey: ["webhooks", "deliveries", id],
      queryFn: ({ signal }) =>
        bodyOf(
          client.GET("/api/v1/webhooks/{webhook_id}/deliveries", {
            params: { ...at(id), query: { limit: 50 } },
            signal,
          }),
        ),
    }),
};

export const createWebhook = (body: WebhookBody): Promise<NewWebhook> =>
  bodyOf(client.POST("/api/v1/webhooks", { body }));

export const changeWebhook = (id: string, body: WebhookChange): Promise<Webhook> =>
  bodyOf(client.PATCH("/api/v1/webhooks/{webhook_id}", { params: at(id), body }));

export const removeWebhook = (id: string): Promise<Webhook> =>
  bodyOf(client.DELETE("/api/v1/webhooks/{webhook_id}", { params: at(id) }));

/** overlap: how long messages are signed with the old secret, too. */
export const rotateWebhook = (id: string, overlap: string): Promise<NewWebhook> =>
  bodyOf(client.POST("/api/v1/webhooks/{webhook_id}/rotate", { params: at(id), body: { overlap } }));

export const testWebhook = (id: string): Promise<WebhookDelivery> =>
  bodyOf(client.POST("/api/v1/webhooks/{webhook_id}/test", { params: at(id) }));
