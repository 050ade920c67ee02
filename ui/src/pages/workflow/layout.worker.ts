import { type GraphShape, layoutGraph } from "./layout";

// Beside the page, so that a large graph does not stop it while it is placed.
self.onmessage = ({ data }: MessageEvent<GraphShape>) => {
  self.postMessage(layoutGraph(data));
};
