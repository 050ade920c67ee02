import { useQuery } from "@tanstack/react-query";
import { Unreachable } from "../api/problem";
import { sessionQueries } from "../api/session";
import { useFeatures } from "../hooks/use-session";
import { useLive } from "../live/use-live";
import { Icon } from "../parts/icon";
import { words } from "../words";
import styles from "./banners.module.css";

/** Asks for a small answer while the feed is broken, to know whether the server is there at all. */
function useDisconnected(): boolean {
  const { status } = useLive();
  const broken = status === "reconnecting" || status === "polling";
  const probe = useQuery({
    ...sessionQueries.features(),
    queryKey: ["session", "features", "probe"],
    enabled: broken,
    staleTime: 0,
    refetchInterval: 4000,
    retry: false,
  });
  return broken && probe.error instanceof Unreachable;
}

export function Banners() {
  const features = useFeatures();
  const disconnected = useDisconnected();
  return (
    <div className={styles.banners} role="status">
      {disconnected && (
        <p className={styles.danger}>
          <Icon name="warning" /> {words.shell.disconnected}
        </p>
      )}
      {features?.read_only && (
        <p>
          <Icon name="lock" /> {words.shell.readOnlyBanner}
        </p>
      )}
    </div>
  );
}
