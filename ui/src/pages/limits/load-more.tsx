import { Button } from "../../parts/button";
import { words } from "../../words";
import styles from "./limits.module.css";

interface Paged {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

export function LoadMore({ query }: { query: Paged }) {
  if (!query.hasNextPage) return null;
  return (
    <div className={styles.more}>
      <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
        {words.loadMore}
      </Button>
    </div>
  );
}
