import { useState } from "react";
import { fieldErrors } from "../../api/field-errors";
import { createToken, type NewToken, type NewTokenAnswer } from "../../api/system";
import { useOrder } from "../../hooks/use-order";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { TextField } from "../../parts/field";
import { OrderError } from "../../parts/order-error";
import { words } from "../../words";

const text = words.system;

interface TokenForm {
  name: string;
  roles: string;
  permissions: string;
  tenant: string;
  expires: string;
}

const listOf = (typed: string): string[] =>
  typed
    .split(/[\s,]+/)
    .map((part) => part.trim())
    .filter(Boolean);

/** A permission may have a comma in its scope: `jobs:read@kind=a,lane=b` is one. */
export function permissionsOf(typed: string): string[] {
  return typed
    .split(/[\s]+|,(?!(?:kind|lane)=)/)
    .map((part) => part.trim())
    .filter(Boolean);
}

function bodyOfForm(form: TokenForm): NewToken {
  return {
    name: form.name.trim(),
    roles: listOf(form.roles),
    permissions: permissionsOf(form.permissions),
    ...(form.tenant.trim() ? { tenant: form.tenant.trim() } : {}),
    ...(form.expires.trim() ? { expires_in: form.expires.trim() } : {}),
  };
}

export function NewTokenDialog({ onClose, onMade }: { onClose: () => void; onMade: (token: NewTokenAnswer) => void }) {
  const [form, setForm] = useState<TokenForm>({
    name: "",
    roles: "operator",
    permissions: "",
    tenant: "",
    expires: "",
  });
  const create = useOrder(() => createToken(bodyOfForm(form)), {
    refresh: [
      ["system", "tokens"],
      ["system", "audit"],
    ],
    onDone: onMade,
    toastError: false,
  });
  const errors = fieldErrors(create.error, ["name", "roles", "permissions", "tenant", "expires_in"]);
  const typed = (field: keyof TokenForm, label: string, hint?: string, error?: string) => (
    <TextField
      label={label}
      hint={hint}
      error={error}
      autoComplete="off"
      spellCheck={false}
      value={form[field]}
      onChange={(event) => setForm({ ...form, [field]: event.target.value })}
    />
  );
  return (
    <Dialog
      title={text.newToken}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone="primary"
            busy={create.isPending}
            disabled={!form.name.trim() || create.isPending}
            onClick={() => create.mutate(undefined)}
          >
            {text.newToken}
          </Button>
        </>
      }
    >
      {typed("name", text.tokenName, undefined, errors.name)}
      {typed("roles", text.roles, text.rolesHint, errors.roles)}
      {typed("permissions", text.permissions, text.permissionsHint, errors.permissions)}
      {typed("tenant", text.tenant, text.tenantHint, errors.tenant)}
      {typed("expires", text.expires, text.expiresHint, errors.expires_in)}
      <OrderError error={create.error} />
    </Dialog>
  );
}
