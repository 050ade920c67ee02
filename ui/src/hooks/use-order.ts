import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { useToast } from "../parts/toast";
import { words } from "../words";

interface OrderOptions<Result> {
  /** What the toast says once it is done; without it no toast. */
  done?: string | ((result: Result) => string);
  /** Queries to read again afterwards, whether it worked or not. */
  refresh: QueryKey[];
  onDone?: (result: Result) => void;
  /** False: the caller shows the error itself, as a form or a dialog does. */
  toastError?: boolean;
}

/** An order to the API: one mutation, with a toast for its end and the affected queries read again. */
export function useOrder<Input, Result>(give: (input: Input) => Promise<Result>, options: OrderOptions<Result>) {
  const client = useQueryClient();
  const toast = useToast();
  return useMutation({
    mutationFn: give,
    onSuccess: (result) => {
      const text = typeof options.done === "function" ? options.done(result) : options.done;
      if (text) toast.show({ tone: "good", text });
      options.onDone?.(result);
    },
    onError: (error) => {
      if (options.toastError !== false)
        toast.show({ tone: "danger", text: `${words.errors.orderFailed}: ${error.message}` });
    },
    onSettled: () => Promise.all(options.refresh.map((queryKey) => client.invalidateQueries({ queryKey }))),
  });
}
