import { type RefObject, useCallback, useEffect, useState } from "react";

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface ViewBox {
  viewBox: string;
  /** factor below 1: closer. */
  zoom: (factor: number) => void;
  fit: () => void;
  /** Brings a point to the middle. */
  show: (x: number, y: number) => void;
}

/** Units of the graph per pixel of the screen: not closer than this, and at first not further away. */
const CLOSEST = 0.5;
const READABLE = 1.15;
/** Narrower views, in pixels, show the whole width of the graph, up to this many units per pixel. */
const NARROW = 600;
const SMALLEST = 2.4;
/** Pixels above the graph in a narrow view, where the tools are. */
const TOOLS = 56;

function whole(layout: { width: number; height: number }): Box {
  return { x: 0, y: 0, width: Math.max(layout.width, 300), height: Math.max(layout.height, 150) };
}

/**
 * A small graph fills the view; of a large one its beginning is shown at a size that can be read. A narrow view has the
 * whole width at its top.
 */
export function firstView(
  { clientWidth, clientHeight }: Pick<Element, "clientWidth" | "clientHeight">,
  layout: { width: number; height: number },
): Box {
  if (clientWidth < NARROW) {
    const scale = Math.max(CLOSEST * 1.6, Math.min(layout.width / clientWidth, SMALLEST));
    const [width, height] = [clientWidth * scale, clientHeight * scale];
    return { x: Math.min(0, (layout.width - width) / 2), y: -TOOLS * scale, width, height };
  }
  const fits = Math.max(layout.width / clientWidth, layout.height / clientHeight);
  const scale = Math.max(CLOSEST * 1.6, Math.min(fits, READABLE));
  const [width, height] = [clientWidth * scale, clientHeight * scale];
  return {
    x: layout.width < width ? (layout.width - width) / 2 : 0,
    y: (layout.height - height) / 2,
    width,
    height,
  };
}

function scaled(box: Box, factor: number, x = box.x + box.width / 2, y = box.y + box.height / 2): Box {
  return {
    x: x - (x - box.x) * factor,
    y: y - (y - box.y) * factor,
    width: box.width * factor,
    height: box.height * factor,
  };
}

/** The part of the graph that is shown: moved by dragging, resized by the wheel or two fingers on a trackpad. */
export function useViewBox(svg: RefObject<SVGSVGElement | null>, layout: { width: number; height: number }): ViewBox {
  const [box, setBox] = useState<Box | null>(null);
  const shown = box ?? whole(layout);

  useEffect(() => {
    const element = svg.current;
    if (!element) return;
    // The size of the view is known once it is on screen; a person's own choice of what to see stays.
    const sizes = new ResizeObserver(() => setBox((before) => before ?? firstView(element, layout)));
    sizes.observe(element);
    return () => sizes.disconnect();
  }, [svg, layout]);

  useEffect(() => {
    const element = svg.current;
    if (!element) return;
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const bounds = element.getBoundingClientRect();
      const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 300);
      setBox((before) => {
        if (!before || (factor < 1 && before.width / bounds.width < CLOSEST)) return before;
        const x = before.x + ((event.clientX - bounds.left) / bounds.width) * before.width;
        const y = before.y + ((event.clientY - bounds.top) / bounds.height) * before.height;
        return scaled(before, factor, x, y);
      });
    };
    let from: { x: number; y: number } | null = null;
    const down = (event: PointerEvent) => {
      from = { x: event.clientX, y: event.clientY };
    };
    const move = (event: PointerEvent) => {
      if (!from || event.buttons === 0) return;
      const { clientWidth } = element;
      const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
      from = { x: event.clientX, y: event.clientY };
      setBox((before) => {
        if (!before) return before;
        const unit = before.width / clientWidth;
        return { ...before, x: before.x - dx * unit, y: before.y - dy * unit };
      });
    };
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", move);
    return () => {
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", move);
    };
  }, [svg]);

  const zoom = useCallback((factor: number) => setBox((before) => before && scaled(before, factor)), []);
  const fit = useCallback(() => setBox(whole(layout)), [layout]);
  const show = useCallback(
    (x: number, y: number) =>
      setBox((before) => before && { ...before, x: x - before.width / 2, y: y - before.height / 2 }),
    [],
  );
  return { viewBox: `${shown.x} ${shown.y} ${shown.width} ${shown.height}`, zoom, fit, show };
}
