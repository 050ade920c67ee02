import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { grantRole, revokeRole, type Role, systemQueries } from "../../api/system";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { Button, IconButton } from "../../parts/button";
import { ConfirmOrder } from "../../parts/confirm-order";
import { TextField } from "../../parts/field";
import { OrderError } from "../../parts/order-error";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { Instant } from "../../parts/time";
import { words } from "../../words";
import styles from "./system.module.css";

const text = words.system;
const REFRESH = [
  ["system", "roles"],
  ["system", "audit"],
];

/** Roles: what each allows, and who was given it. */
export function RolesTab() {
  const roles = useQuery(systemQueries.roles());
  return (
    <>
      <p>{text.rolesAbout}</p>
      <Loaded query={roles}>{({ items }) => items.map((role) => <RolePanel key={role.name} role={role} />)}</Loaded>
    </>
  );
}

function RolePanel({ role }: { role: Role }) {
  const mayOrder = useMayOrder();
  return (
    <Panel title={role.name}>
      <ul className={styles.permissions}>
        {role.permissions.map((permission) => (
          <li key={permission}>
            <code>{permission}</code>
          </li>
        ))}
      </ul>
      {role.grants.length === 0 ? (
        <p>{text.noGrants}</p>
      ) : (
        <ul className={styles.grants}>
          {role.grants.map((grant) => (
            <li key={grant.subject}>
              <strong>{grant.subject}</strong> <Instant at={grant.granted_at} />{" "}
              {grant.granted_by && text.grantedBy(grant.granted_by)}
              {mayOrder("tokens:manage") && <TakeRole role={role.name} subject={grant.subject} />}
            </li>
          ))}
        </ul>
      )}
      {mayOrder("tokens:manage") && <GiveRole role={role.name} />}
    </Panel>
  );
}

function GiveRole({ role }: { role: string }) {
  const [subject, setSubject] = useState("");
  const give = useOrder(() => grantRole(role, subject.trim()), {
    done: text.given(role, subject.trim()),
    refresh: REFRESH,
    onDone: () => setSubject(""),
    toastError: false,
  });
  return (
    <form
      className={styles.give}
      onSubmit={(event) => {
        event.preventDefault();
        if (subject.trim()) give.mutate(undefined);
      }}
    >
      <TextField
        label={text.giveTo(role)}
        hint={text.giveHint}
        value={subject}
        autoComplete="off"
        onChange={(event) => setSubject(event.target.value)}
      />
      <Button type="submit" busy={give.isPending} disabled={!subject.trim()}>
        {text.give}
      </Button>
      <OrderError error={give.error} />
    </form>
  );
}

function TakeRole({ role, subject }: { role: string; subject: string }) {
  const [asked, setAsked] = useState(false);
  const take = useOrder(() => revokeRole(role, subject), {
    done: text.taken(role, subject),
    refresh: REFRESH,
    onDone: () => setAsked(false),
    toastError: false,
  });
  return (
    <>
      <IconButton icon="trash" label={text.take(role, subject)} onClick={() => setAsked(true)} />
      {asked && (
        <ConfirmOrder
          danger
          title={text.takeTitle(role, subject)}
          action={text.takeAction}
          busy={take.isPending}
          error={take.error}
          onConfirm={() => take.mutate(undefined)}
          onClose={() => setAsked(false)}
        >
          {text.takeText}
        </ConfirmOrder>
      )}
    </>
  );
}
