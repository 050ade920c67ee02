import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { ApiProblem } from "../api/problem";
import { sessionQueries } from "../api/session";
import { ErrorNotice, Loading } from "../parts/page-states";
import { Login } from "./login";

/** Asks who the caller is, and shows the login page to a caller whom the API does not know. */
export function SessionGate({ children }: { children: ReactNode }) {
  const me = useQuery(sessionQueries.me());
  const [known, setKnown] = useState(false);
  if (me.data && !known) setKnown(true);
  if (me.error instanceof ApiProblem && me.error.status === 401) return <Login ended={known} />;
  if (me.data) return children;
  if (me.error) return <ErrorNotice error={me.error} onRetry={() => void me.refetch()} />;
  return <Loading />;
}
