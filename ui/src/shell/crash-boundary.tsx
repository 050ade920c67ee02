import { Component, type ReactNode } from "react";
import { Button } from "../parts/button";
import { Notice } from "../parts/page-states";
import { words } from "../words";

interface CrashState {
  error: Error | null;
}

/** A page whose file is gone was built before the server was upgraded: a reload brings the new one. */
function isMissingChunk(error: Error): boolean {
  return /dynamically imported module|module script|Importing a module/i.test(error.message);
}

/** Keeps a mistake in one page from taking the navigation with it. */
export class CrashBoundary extends Component<{ children: ReactNode }, CrashState> {
  override state: CrashState = { error: null };

  static getDerivedStateFromError(error: Error): CrashState {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    const outdated = isMissingChunk(error);
    return (
      <div role="alert">
        <Notice
          icon="warning"
          heading="h1"
          title={outdated ? words.errors.chunkTitle : words.errors.crashedTitle}
          actions={
            <Button tone="primary" onClick={() => location.reload()}>
              {words.reload}
            </Button>
          }
        >
          {outdated ? words.errors.chunk : words.errors.crashed}
        </Notice>
      </div>
    );
  }
}
