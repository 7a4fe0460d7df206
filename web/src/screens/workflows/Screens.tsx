// The screens of workflows. They are loaded together: who looks at one looks at the others.

import { usePath } from "../../router";
import type { ScreenProps } from "..";
import { Approvals } from "./Approvals";
import { Edit, Editor } from "./Editor";
import { Run } from "./Run";
import { Workflow } from "./Workflow";
import { Workflows } from "./Workflows";
import "./workflows.css";

export default function Screens({ params }: ScreenProps) {
  const path = usePath();
  if (params["run"]) return <Run key={params["run"]} id={params["run"]} />;
  if (path === "/workflows/new") return <Editor />;
  if (params["id"] && path.endsWith("/edit")) return <Edit key={params["id"]} id={params["id"]} />;
  if (params["id"]) return <Workflow key={params["id"]} id={params["id"]} />;
  return path === "/approvals" ? <Approvals /> : <Workflows />;
}
