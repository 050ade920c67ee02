import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type NewTokenAnswer, revokeToken, rotateToken, systemQueries, type Token } from "../../api/system";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { Button } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { CopyButton } from "../../parts/copy-button";
import { Dialog } from "../../parts/dialog";
import { TextField } from "../../parts/field";
import { Menu } from "../../parts/menu";
import { OrderError } from "../../parts/order-error";
import { Panel } from "../../parts/page";
import { Empty, Loaded } from "../../parts/page-states";
import { type Column, Table } from "../../parts/table";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import { NewTokenDialog } from "./new-token";
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
      {made && <SecretOnce token={made} onClose={() => setMade(null)} />}
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

function SecretOnce({ token, onClose }: { token: NewTokenAnswer; onClose: () => void }) {
  return (
    <Dialog
      title={text.tokenCreated(token.name)}
      onClose={onClose}
      footer={
        <Button tone="primary" onClick={onClose}>
          {words.close}
        </Button>
      }
    >
      <p>{text.tokenOnce}</p>
      <p className={styles.secret}>
        <code>{token.text}</code>
        <CopyButton text={token.text} />
      </p>
    </Dialog>
  );
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
        <RotateToken
          token={token}
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

interface RotateTokenProps {
  token: Token;
  onClose: () => void;
  onMade: (token: NewTokenAnswer) => void;
}

function RotateToken({ token, onClose, onMade }: RotateTokenProps) {
  const [overlap, setOverlap] = useState("1h");
  const rotate = useOrder(() => rotateToken(token.id, overlap.trim()), {
    refresh: REFRESH,
    onDone: onMade,
    toastError: false,
  });
  return (
    <Dialog
      title={text.rotateTitle(token.name)}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button tone="primary" busy={rotate.isPending} onClick={() => rotate.mutate(undefined)}>
            {text.rotate}
          </Button>
        </>
      }
    >
      <p>{text.rotateText}</p>
      <TextField label={text.overlap} value={overlap} onChange={(event) => setOverlap(event.target.value)} />
      <OrderError error={rotate.error} />
    </Dialog>
  );
}
