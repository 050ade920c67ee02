import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Suspense } from "react";
import { Redirect, Route, Router, Switch } from "wouter";
import { ApiProblem, isFinal } from "./api/problem";
import { prefix } from "./api/root";
import { sessionQueries } from "./api/session";
import { useMayRead } from "./hooks/use-session";
import { LiveProvider } from "./live/use-live";
import { Page } from "./parts/page";
import { Forbidden, Loading } from "./parts/page-states";
import { ToastProvider } from "./parts/toast";
import { NAVIGATION, type PageRoute, ROUTES } from "./routes";
import { CrashBoundary } from "./shell/crash-boundary";
import { Frame } from "./shell/frame";
import { NotFound } from "./shell/not-found";
import { SessionGate } from "./shell/session-gate";
import { words } from "./words";

/**
 * A 401 anywhere means that the session has ended: asking GET /me again brings the login page. Not for a caller whom the
 * API did not know before: that is the answer to a wrong token, and the login page shows it.
 */
function onError(client: () => QueryClient) {
  return (error: Error) => {
    const { queryKey } = sessionQueries.me();
    const known = client().getQueryData(queryKey) !== undefined;
    if (known && error instanceof ApiProblem && error.status === 401) void client().invalidateQueries({ queryKey });
  };
}

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      if (query.queryKey[0] !== "session") onError(() => client)(error);
    },
  }),
  mutationCache: new MutationCache({ onError: onError(() => client) }),
  defaultOptions: {
    // Without a network a request fails at once and the page says so; by default it would wait in silence.
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always",
      staleTime: 2000,
      retry: (count, error) => count < 2 && !isFinal(error),
      // The live feed says what changed; a window that gets the focus back need not ask.
      refetchOnWindowFocus: false,
    },
  },
});

function GuardedPage({ route }: { route: PageRoute }) {
  const mayRead = useMayRead();
  if (route.needs && !mayRead(route.needs)) {
    // People without the operators' pages begin with their own jobs.
    if (route.path === "/" && mayRead("jobs:read")) return <Redirect to="/jobs" replace />;
    const entry = NAVIGATION.findLast(({ path }) => path !== "/" && route.path.startsWith(path));
    return (
      <Page title={entry?.label ?? words.shell.nav.overview}>
        <Forbidden permission={route.needs} />
      </Page>
    );
  }
  return <route.page />;
}

function Pages() {
  return (
    <Switch>
      {ROUTES.map((route) => (
        <Route key={route.path} path={route.path}>
          <CrashBoundary key={route.path}>
            <Suspense fallback={<Loading />}>
              <GuardedPage route={route} />
            </Suspense>
          </CrashBoundary>
        </Route>
      ))}
      <Route>
        <NotFound />
      </Route>
    </Switch>
  );
}

export function App() {
  return (
    <QueryClientProvider client={client}>
      <Router base={prefix}>
        <ToastProvider>
          <SessionGate>
            <LiveProvider>
              <Frame>
                <Pages />
              </Frame>
            </LiveProvider>
          </SessionGate>
        </ToastProvider>
      </Router>
    </QueryClientProvider>
  );
}
