import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type NewTokenAnswer, revokeToken, rotateToken, systemQueries, type Token } from "../../api/system";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { Menu } from "../../parts/menu";
import { Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { NewTokenDialog } from "./new-token";
import { RotateDialog } from "./rotate-dialog";
import { SecretOnce } from "./secret-once";
import styles from "./system.module.css";

const text = words.system;
const REFRESH = [
  ["system", "tokens"],
  ["system", "audit"],
];

/** API tokens: create, rotate, revoke. A secret is shown once, right after it was made. */
export function TokensTab() {
  const tokens = useQuery(systemQueries.tokens());
  const mayOrder = useMayOrder();
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState<NewTokenAnswer | null>(null);
  const columns = columnsOf(setMade);
  return (
    <>
      <div className={styles.bar}>
        <p>{text.tokensAbout}</p>
        {mayOrder("tokens:manage") && (
          <Button icon="plus" onClick={() => setCreating(true)}>
            {text.newToken}
          </Button>
        )}
      </div>
      <Panel flush>
        <Loaded query={tokens}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty title={text.noTokens}>{text.noTokensWhy}</Empty>
            ) : (
              <Table label={text.tabs.tokens} rows={items} columns={columns} rowKey={({ id }) => id} />
            )
          }
        </Loaded>
      </Panel>
      {creating && (
        <NewTokenDialog
          onClose={() => setCreating(false)}
          onMade={(token) => {
            setCreating(false);
            setMade(token);
          }}
        />
      )}
      {made && (
        <SecretOnce
          title={text.tokenCreated(made.name)}
          about={text.tokenOnce}
          secret={made.text}
          onClose={() => setMade(null)}
        />
      )}
    </>
  );
}

function columnsOf(onMade: (token: NewTokenAnswer) => void): Column<Token>[] {
  return [
    { key: "name", title: text.tokenName, cell: ({ name }) => name },
    {
      key: "rights",
      title: text.permissions,
      hideBelow: "phone",
      cell: ({ roles, permissions }) => {
        const all = [...roles, ...permissions].join(", ") || words.none;
        return <span title={all}>{all}</span>;
      },
    },
    { key: "tenant", title: text.tenant, hideBelow: "laptop", cell: ({ tenant }) => tenant ?? words.none },
    {
      key: "used",
      title: text.lastUsed,
      width: "7rem",
      align: "end",
      hideBelow: "tablet",
      cell: ({ last_used_at }) => <Instant at={last_used_at} />,
    },
    {
      key: "expires",
      title: text.expiresAt,
      width: "7rem",
      align: "end",
      cell: ({ expires_at, revoked_at }) =>
        revoked_at ? text.revoked : expires_at ? <Instant at={expires_at} /> : text.never,
    },
    {
      key: "orders",
      title: words.orders,
      heading: null,
      width: "3rem",
      align: "end",
      cell: (token) => <TokenMenu token={token} onMade={onMade} />,
    },
  ];
}

function TokenMenu({ token, onMade }: { token: Token; onMade: (token: NewTokenAnswer) => void }) {
  const mayOrder = useMayOrder();
  const [asked, setAsked] = useState<"rotate" | "revoke" | null>(null);
  const close = () => setAsked(null);
  const revoke = useOrder(() => revokeToken(token.id), {
    done: text.tokenRevoked(token.name),
    refresh: REFRESH,
    onDone: close,
    toastError: false,
  });
  if (!mayOrder("tokens:manage") || token.revoked_at) return null;
  return (
    <>
      <Menu
        label={text.tokenOrders(token.name)}
        items={[
          { label: text.rotate, icon: "retry", onSelect: () => setAsked("rotate") },
          { label: text.revoke, icon: "trash", danger: true, onSelect: () => setAsked("revoke") },
        ]}
      />
      {asked === "rotate" && (
        <RotateDialog
          title={text.rotateTitle(token.name)}
          about={text.rotateText}
          overlapLabel={text.overlap}
          overlap="1h"
          action={text.rotate}
          rotate={(overlap) => rotateToken(token.id, overlap)}
          refresh={REFRESH}
          onClose={close}
          onMade={(made) => {
            close();
            onMade(made);
          }}
        />
      )}
      {asked === "revoke" && (
        <ConfirmOrder
          danger
          title={text.revokeTitle(token.name)}
          action={text.revoke}
          busy={revoke.isPending}
          error={revoke.error}
          onConfirm={() => revoke.mutate(undefined)}
          onClose={close}
        >
          {text.revokeText}
        </ConfirmOrder>
      )}
    </>
  );
}
