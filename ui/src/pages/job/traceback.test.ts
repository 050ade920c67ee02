import { expect, it } from "vitest";
import { partsOf } from "./traceback";

const TRACEBACK = `Traceback (most recent call last):
  File "/srv/venv/lib/python3.12/site-packages/rowlock/flow/run/attempt.py", line 263, in in_process
    value = await call(args)
            ^^^^^^^^^^^^^^^^
  File "/srv/shop/tasks.py", line 12, in charge
    gateway.pay(order)
  File "/srv/shop/gateway.py", line 40, in pay
    raise PaymentError("declined")
  File "/usr/lib/python3.12/asyncio/tasks.py", line 5, in wait
    x
ValueError: declined
second line
`;

it("parts own frames from those of libraries, and keeps the text around them", () => {
  const parts = partsOf(TRACEBACK);
  expect(parts.map((part) => (part.type === "text" ? part.text : [part.own, part.frames.length]))).toEqual([
    "Traceback (most recent call last):",
    [false, 1],
    [true, 2],
    [false, 1],
    "ValueError: declined\nsecond line",
  ]);
});

it("keeps the lines of source with their frame", () => {
  const [, library, own] = partsOf(TRACEBACK);
  expect(library?.type === "frames" && library.frames[0]?.source).toEqual([
    "value = await call(args)",
    "        ^^^^^^^^^^^^^^^^",
  ]);
  expect(own?.type === "frames" && own.frames[1]).toMatchObject({
    file: "/srv/shop/gateway.py",
    line: 40,
    name: "pay",
  });
});

it("takes what is no traceback as text", () => {
  expect(partsOf("out of paper")).toEqual([{ type: "text", text: "out of paper" }]);
});
