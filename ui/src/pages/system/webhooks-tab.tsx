import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import {
  changeWebhook,
  type NewWebhook,
  removeWebhook,
  rotateWebhook,
  testWebhook,
  type Webhook,
  webhookQueries,
} from "../../api/webhooks";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { useUrlState } from "../../hooks/use-url-state";
import { Button } from "../../parts/button";
import { classNames } from "../../parts/class-names";
import { ConfirmOrder } from "../../parts/confirm-order";
import { Icon, type IconName } from "../../parts/icon";
import { Menu } from "../../parts/menu";
import { Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { EditWebhook } from "./edit-webhook";
import { RotateDialog } from "./rotate-dialog";
import { SecretOnce } from "./secret-once";
import styles from "./system.module.css";
import { WebhookDeliveries } from "./webhook-deliveries";

const text = words.webhooks;
const REFRESH = [["webhooks"], ["system", "audit"]];
const ICONS: Record<string, IconName> = { healthy: "check", failing: "warning", disabled: "pause", new: "wait" };

/** Endpoints of other systems: add, change, test, disable, rotate, and what was last sent to one. */
export function WebhooksTab() {
  const webhooks = useQuery({ ...webhookQueries.list(), refetchInterval: 10_000 });
  const mayOrder = useMayOrder();
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState<NewWebhook | null>(null);
  const [chosen, setChosen] = useUrlState("webhook");
  const shown = webhooks.data?.items.find(({ id }) => id === chosen);
  return (
    <>
      <div className={styles.bar}>
        <p>{text.about}</p>
        {mayOrder("webhooks:manage") && (
          <Button icon="plus" onClick={() => setCreating(true)}>
            {text.new}
          </Button>
        )}
      </div>
      <Panel flush>
        <Loaded query={webhooks}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty title={text.none}>{text.noneWhy}</Empty>
            ) : (
              <Table
                label={words.system.tabs.webhooks}
                rows={items}
                columns={columnsOf(setMade, setChosen)}
                rowKey={({ id }) => id}
                onOpen={({ id }) => setChosen(id)}
              />
            )
          }
        </Loaded>
      </Panel>
      {shown && <WebhookDeliveries webhook={shown} />}
      {creating && (
        <EditWebhook
          webhook={null}
          onClose={() => setCreating(false)}
          onMade={(webhook) => {
            setCreating(false);
            setMade(webhook);
          }}
        />
      )}
      {made && (
        <SecretOnce
          title={text.secretTitle(made.id)}
          about={text.secretOnce}
          secret={made.secret}
          onClose={() => setMade(null)}
        />
      )}
    </>
  );
}

function Health({ webhook }: { webhook: Webhook }) {
  const why = webhook.disabled_reason ?? (webhook.health === "failing" ? webhook.last_error : null);
  return (
    <span className={classNames(styles.health, styles[webhook.health])} title={why ?? undefined}>
      <Icon name={ICONS[webhook.health] ?? "info"} size={12} /> {text.healths[webhook.health] ?? webhook.health}
    </span>
  );
}

function columnsOf(onMade: (made: NewWebhook) => void, onShow: (id: string) => void): Column<Webhook>[] {
  return [
    {
      key: "url",
      title: text.url,
      cell: ({ id, url, description }) => (
        <button type="button" className={styles.plain} title={description ?? url} onClick={() => onShow(id)}>
          {url}
        </button>
      ),
    },
    {
      key: "kinds",
      title: text.kinds,
      hideBelow: "tablet",
      cell: ({ kinds }) => {
        const named = kinds.map((kind) => (kind === "*" ? text.everyKind : kind)).join(", ");
        return <span title={named}>{named}</span>;
      },
    },
    {
      key: "states",
      title: text.states,
      hideBelow: "laptop",
      cell: ({ states }) => {
        const named = states.map((state) => words.states[state]).join(", ");
        return <span title={named}>{named}</span>;
      },
    },
    { key: "health", title: text.health, width: "6.5rem", cell: (webhook) => <Health webhook={webhook} /> },
    {
      key: "delivered",
      title: text.delivered,
      width: "7rem",
      align: "end",
      hideBelow: "phone",
      cell: ({ delivered_at }) => <Instant at={delivered_at} />,
    },
    {
      key: "orders",
      title: words.orders,
      heading: null,
      width: "3rem",
      align: "end",
      cell: (webhook) => <WebhookMenu webhook={webhook} onMade={onMade} onShow={onShow} />,
    },
  ];
}

interface WebhookMenuProps {
  webhook: Webhook;
  onMade: (made: NewWebhook) => void;
  onShow: (id: string) => void;
}

function WebhookMenu({ webhook, onMade, onShow }: WebhookMenuProps) {
  const { id } = webhook;
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<"edit" | "disable" | "rotate" | "remove" | null>(null);
  const close = () => setAsked(null);
  const test = useOrder(() => testWebhook(id), { done: text.tested, refresh: REFRESH, onDone: () => onShow(id) });
  const enable = useOrder((enabled: boolean) => changeWebhook(id, { enabled }), {
    done: ({ enabled }) => (enabled ? text.enabled(id) : text.disabled(id)),
    refresh: REFRESH,
    onDone: close,
    toastError: webhook.enabled ? false : true,
  });
  const remove = useOrder(() => removeWebhook(id), {
    done: text.removed(id),
    refresh: REFRESH,
    onDone: close,
    toastError: false,
  });
  if (!mayOrder("webhooks:manage")) return null;
  return (
    <>
      <Menu
        label={text.orders(id)}
        items={[
          { label: text.show, icon: "jobs", onSelect: () => onShow(id) },
          { label: text.test, icon: "play", onSelect: () => test.mutate(undefined) },
          { label: text.edit, icon: "edit", onSelect: () => setAsked("edit") },
          webhook.enabled
            ? { label: text.disable, icon: "pause", onSelect: () => setAsked("disable") }
            : { label: text.enable, icon: "play", onSelect: () => enable.mutate(true) },
          { label: text.rotate, icon: "retry", onSelect: () => setAsked("rotate") },
          { label: text.remove, icon: "trash", danger: true, onSelect: () => setAsked("remove") },
        ]}
      />
      {asked === "edit" && <EditWebhook webhook={webhook} onClose={close} onMade={onMade} />}
      {asked === "rotate" && (
        <RotateDialog
          title={text.rotateTitle(id)}
          about={text.rotateText}
          overlapLabel={text.overlap}
          overlap="1d"
          action={text.rotate}
          rotate={(overlap) => rotateWebhook(id, overlap)}
          refresh={REFRESH}
          onClose={close}
          onMade={(made) => {
            close();
            onMade(made);
          }}
        />
      )}
      {asked === "disable" && (
        <ConfirmOrder
          danger
          title={text.disableTitle(id)}
          action={text.disable}
          busy={enable.isPending}
          error={enable.error}
          onConfirm={() => enable.mutate(false)}
          onClose={close}
        >
          {text.disableText}
        </ConfirmOrder>
      )}
      {asked === "remove" && (
        <ConfirmOrder
          danger
          title={text.removeTitle(id)}
          action={text.remove}
          busy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate(undefined)}
          onClose={close}
        >
          {text.removeText}
        </ConfirmOrder>
      )}
    </>
  );
}
