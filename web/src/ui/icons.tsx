// Small drawings in one stroke, in the colour of the text around them.

import type { ReactNode } from "react";

const paths = {
  bell: <path d="M8 2a3.7 3.7 0 0 0-3.7 3.7V9L2.8 11.7h10.4L11.7 9V5.7A3.7 3.7 0 0 0 8 2zM6.7 13.6a1.4 1.4 0 0 0 2.6 0" />,
  now: <path d="M1.5 8.5h3l2-5 3 9 2-5h3" />,
  jobs: <path d="M2.5 4h11M2.5 8h11M2.5 12h7" />,
  workflows: <path d="M1.5 6h4v4h-4zM10.5 2h4v4h-4zM10.5 10h4v4h-4zM5.5 8H8M8 4v8M8 4h2.5M8 12h2.5" />,
  executions: <path d="M5 3.2v9.6l7.5-4.8z" />,
  "dead-letters": <path d="M2 4.5h12v8H2zM2 5l6 4.5L14 5M5.5 2h5" />,
  queues: <path d="M2 3.5h12M2 7h12M4 10.5h8M6 14h4" />,
  workers: <path d="M3 3h10v4H3zM3 9h10v4H3zM5.5 5h.01M5.5 11h.01" />,
  forecast: <path d="M2 13.5h12M4 11V8M7 11V4M10 11V6.5M13 11V9" />,
  admin: <path d="M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM8 1.8v2M8 12.2v2M1.8 8h2M12.2 8h2M3.6 3.6 5 5M11 11l1.4 1.4M12.4 3.6 11 5M5 11l-1.4 1.4" />,
  search: <path d="M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5 14 14" />,
  menu: <path d="M2 4h12M2 8h12M2 12h12" />,
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  sun: <path d="M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.5v1.7M8 12.8v1.7M1.5 8h1.7M12.8 8h1.7M3.4 3.4l1.2 1.2M11.4 11.4l1.2 1.2M12.6 3.4l-1.2 1.2M4.6 11.4l-1.2 1.2" />,
  moon: <path d="M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1z" />,
  half: <path d="M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11" />,
  more: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.4" />,
  copy: <path d="M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1" />,
  play: <path d="M5 3.2v9.6l7.5-4.8z" />,
  pause: <path d="M5.5 3.5v9M10.5 3.5v9" />,
  plus: <path d="M8 3v10M3 8h10" />,
  check: <path d="m3 8.5 3.5 3.5L13 4.5" />,
  user: <path d="M8 7.5a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4zM2.8 14a5.2 5.2 0 0 1 10.4 0" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true" focusable="false">
      {paths[name]}
    </svg>
  );
}
