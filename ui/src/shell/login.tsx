import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SyntheticEvent, useState } from "react";
import { ApiProblem } from "../api/problem";
import { logIn, providerAddress, sessionQueries } from "../api/session";
import { Button } from "../parts/button";
import { TextField } from "../parts/field";
import { words } from "../words";
import styles from "./login.module.css";
import { Mark } from "./mark";

function problemText(error: Error): string {
  if (!(error instanceof ApiProblem)) return error.message;
  if (error.status === 401) return words.shell.login.wrong;
  return error.status === 429 ? words.shell.login.tooMany : error.message;
}

/** ended: the caller was logged in a moment ago. The address stays, so that the page comes back after the login. */
export function Login({ ended }: { ended: boolean }) {
  const client = useQueryClient();
  const [token, setToken] = useState("");
  const oidc = useQuery(sessionQueries.logins()).data?.oidc;
  const login = useMutation({ mutationFn: logIn, onSuccess: () => client.resetQueries() });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    login.mutate(token.trim());
  };
  return (
    <main className={styles.page}>
      <form className={styles.form} onSubmit={submit}>
        <Mark size={40} />
        <h1>{words.shell.login.title}</h1>
        {ended && <p role="status">{words.shell.login.ended}</p>}
        {oidc && <a href={providerAddress(oidc)}>{words.shell.login.provider(oidc.label)}</a>}
        <TextField
          label={words.shell.login.token}
          hint={words.shell.login.hint}
          error={login.error && problemText(login.error)}
          type="password"
          autoComplete="current-password"
          spellCheck={false}
          required
          value={token}
          onChange={(event) => setToken(event.target.value)}
        />
        <Button type="submit" tone="primary" busy={login.isPending}>
          {words.shell.login.submit}
        </Button>
        <p className={styles.local}>{words.shell.login.local}</p>
      </form>
    </main>
  );
}
