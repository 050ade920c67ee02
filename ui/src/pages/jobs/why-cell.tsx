import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Job } from "../../api/client";
import { jobQueries, WAITING } from "../../api/jobs";
import { useLive } from "../../live/use-live";
import { Button, IconButton } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { words } from "../../words";

const text = words.jobs.why;
/** Milliseconds between two looks: lanes and workers change without a change of the job. */
const EVERY = 10_000;

/** The most decisive reason; null while it is read, and for a job that does not wait. */
function useReason(job: Job): string | null {
  const live = useLive();
  const waits = WAITING.includes(job.state);
  const { data } = useQuery({
    ...jobQueries.why(job.id, job.state),
    enabled: waits,
    refetchInterval: live.status === "paused" ? false : EVERY,
  });
  return waits ? (data?.reasons[0]?.text ?? null) : null;
}

/** In words, cut where the column ends. */
export function Why({ job }: { job: Job }) {
  const reason = useReason(job);
  return reason === null ? words.none : <span title={reason}>{reason}</span>;
}

/** Behind a button, where there is no room for words. */
export function WhyButton({ job }: { job: Job }) {
  const reason = useReason(job);
  const [open, setOpen] = useState(false);
  if (reason === null) return null;
  return (
    <>
      <IconButton icon="info" label={text.of(job.id)} onClick={() => setOpen(true)} />
      {open && (
        <Dialog
          title={words.job.why.title}
          onClose={() => setOpen(false)}
          footer={<Button onClick={() => setOpen(false)}>{words.close}</Button>}
        >
          <p>{reason}</p>
        </Dialog>
      )}
    </>
  );
}
