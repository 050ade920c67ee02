import { useMutation } from "@tanstack/react-query";
import { verifyAudit } from "../../api/system";
import { useMayRead } from "../../hooks/use-session";
import { useUrlState } from "../../hooks/use-url-state";
import { AuditHistory } from "../../parts/audit-history";
import { Button } from "../../parts/button";
import { TextField } from "../../parts/field";
import { OrderError } from "../../parts/order-error";
import { Panel } from "../../parts/page";
import { words } from "../../words";
import { numberText } from "../../words/format";
import styles from "./system.module.css";

const text = words.system;

/** Who did what. The filters are in the address. */
export function AuditTab() {
  const [target, setTarget] = useUrlState("target");
  const [subject, setSubject] = useUrlState("subject");
  const [action, setAction] = useUrlState("action");
  const search = { ...(target && { target }), ...(subject && { subject }), ...(action && { action }) };
  const field = (label: string, value: string, set: typeof setTarget, hint?: string) => (
    <TextField
      label={label}
      hint={hint}
      type="search"
      value={value}
      onChange={(event) => set(event.target.value, { replace: true })}
    />
  );
  return (
    <>
      <div className={styles.filters}>
        {field(text.target, target, setTarget, text.targetHint)}
        {field(text.subject, subject, setSubject)}
        {field(text.action, action, setAction)}
        <VerifySeals />
      </div>
      <Panel flush>
        <AuditHistory search={search} empty={text.auditEmpty} />
      </Panel>
    </>
  );
}

function VerifySeals() {
  const mayRead = useMayRead();
  const check = useMutation({ mutationFn: verifyAudit });
  if (!mayRead("jobs:read_all")) return null;
  const broken = check.data?.broken;
  return (
    <div className={styles.verify}>
      <Button icon="check" busy={check.isPending} onClick={() => check.mutate()}>
        {text.verify}
      </Button>
      <p role="status">
        {check.data && !broken && text.verified(numberText(check.data.lines))}
        {broken && text.broken(numberText(broken.n), broken.reason)}
      </p>
      <OrderError error={check.error} />
    </div>
  );
}
