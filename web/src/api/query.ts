// How screens read: TanStack Query over the API, one page of a list at a time, the place in the list in the address.

import { QueryClient, useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useParam, navigate, withParams } from "../router";
import { get, isProblem, type Params } from "./http";
import { useLiveSwitch } from "./live";
import type { Pagination } from "./types";

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      gcTime: 10 * 60_000,
      retry: (n, e) => n < 3 && isProblem(e, 0, 429, 502, 503, 504),
      retryDelay: (n, e) => (isProblem(e) && e.retryAfter ? e.retryAfter * 1000 : Math.min(1000 * 2 ** n, 8000)),
    },
  },
});

/** useFollowing is when something is read anew by itself: after every ms, and when the page is come back to; never while live updates are off. */
export function useFollowing(every?: number) {
  const [on] = useLiveSwitch();
  return { refetchInterval: on && every !== undefined ? every : (false as const), refetchOnWindowFocus: on, refetchOnReconnect: on };
}

/** useGet reads one path of the API, again after every ms; fresh asks although it was read just now. undefined as path reads nothing. */
export function useGet<T>(path: string | undefined, params?: Params, o: { every?: number; fresh?: boolean } = {}): UseQueryResult<T, Error> {
  return useQuery<T, Error>({
    queryKey: [path, params ?? {}],
    queryFn: ({ signal }) => get<T>(path ?? "", params, signal),
    enabled: path !== undefined,
    // Another page or filter of the same list keeps what is shown until it is there; another thing never does.
    placeholderData: (before, q) => (q?.queryKey[0] === path ? before : undefined),
    ...useFollowing(o.every),
    refetchOnMount: o.fresh ? "always" : true,
  });
}

/** useRefresh reads anew whatever is shown of the paths that begin with one of these. */
export function useRefresh() {
  const client = useQueryClient();
  return (...paths: string[]) =>
    client.invalidateQueries({ predicate: (q) => typeof q.queryKey[0] === "string" && paths.some((p) => (q.queryKey[0] as string).startsWith(p)) }, { cancelRefetch: false });
}

export type Page<T> = {
  rows: T[];
  pagination: Pagination | undefined;
  query: UseQueryResult<unknown, Error>;
  first: boolean;
  next: (() => void) | undefined;
  back: () => void;
  toFirst: () => void;
};

/** usePage reads one page of a list, by keyset: the cursor stands in the address, so back is the page before. */
export function usePage<T>(path: string | undefined, noun: string, params: Params): Page<T> {
  const [cursor] = useParam("cursor");
  const query = useGet<Record<string, unknown>>(path, { ...params, cursor });
  const data = query.data;
  const pagination = data?.["pagination"] as Pagination | undefined;
  const next = pagination?.next_cursor;
  return {
    rows: (data?.[noun] as T[] | undefined) ?? [],
    pagination,
    query,
    first: cursor === "",
    next: next ? () => navigate(withParams({ cursor: next })) : undefined,
    back: () => history.back(),
    toFirst: () => navigate(withParams({ cursor: null })),
  };
}
