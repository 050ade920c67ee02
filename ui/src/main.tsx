import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { applyTheme, storedTheme } from "./shell/theme";
import "./style/tokens.css";
import "./style/base.css";

applyTheme(storedTheme());

const element = document.getElementById("root");
if (!element) throw new Error("index.html has no element #root");
createRoot(element).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
