package console

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// language is a language of the pages.
type language string

const (
	english language = "en"
	chinese language = "zh-CN"
)

// languageOf returns the language that a browser prefers (Accept-Language), or English.
func languageOf(accept string) language {
	type wish struct {
		language
		weight float64
	}
	var wishes []wish
	for part := range strings.SplitSeq(accept, ",") {
		tag, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
			weight, _ = strconv.ParseFloat(q, 64) // 0 if it does not parse: not wanted
		}
		base, _, _ := strings.Cut(strings.ToLower(tag), "-")
		switch {
		case weight <= 0:
		case base == "zh":
			wishes = append(wishes, wish{chinese, weight})
		case base == "en":
			wishes = append(wishes, wish{english, weight})
		}
	}
	if len(wishes) == 0 {
		return english
	}
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(b.weight, a.weight) })
	return wishes[0].language
}

// translate formats a text, given in English, in the language.
func (l language) translate(text string, args ...any) string {
	if l == chinese {
		if t, ok := chineseOf[text]; ok {
			text = t
		}
	}
	if len(args) == 0 {
		return text
	}
	return fmt.Sprintf(text, args...)
}

// chineseOf translates each text of the pages to Chinese.
var chineseOf = map[string]string{
	"Locks":                          "锁",
	"Members":                        "成员",
	"Doctor":                         "诊断",
	"Lock":                           "锁",
	"lockd console":                  "lockd 控制台",
	"node %s":                        "节点 %s",
	"live":                           "实时",
	"not live":                       "未更新",
	"connection lost":                "连接中断",
	"Search":                         "搜索",
	"part of the name, or a pattern": "名称的一部分，或通配符",
	"Database":                       "数据库",
	"only with waiters":              "只看有人排队的",
	"Sort by":                        "排序",
	"time held":                      "持有时间",
	"waiters":                        "排队人数",
	"lease left":                     "剩余租约",
	"Show":                           "显示",
	"Holder":                         "持有者",
	"Held for":                       "已持有",
	"Lease":                          "租约",
	"Waiting":                        "排队",
	"Fence":                          "Fence",
	"No lock is held.":               "现在没有锁被持有。",
	"No lock that is held is so.":    "没有符合条件的锁。",
	"Locks: %d, waiters: %d":         "锁：%d，等待者：%d",
	"More are held than these %d: search for others.": "持有的锁不止这 %d 把：请用搜索缩小范围。",
	"and %d more":                     "还有 %d 个",
	"no end":                          "无期限",
	"%s of %s":                        "剩 %s，共 %s",
	"exclusive":                       "独占",
	"shared":                          "共享",
	"%d of %d":                        "%d / %d",
	"Nobody holds it.":                "现在没有人持有它。",
	"Held by":                         "持有者",
	"Token":                           "Token",
	"Client":                          "客户端",
	"Renewed":                         "续租",
	"never":                           "从未",
	"%d times":                        "%d 次",
	"%d times, last at %s":            "%d 次，最近 %s",
	"Note":                            "备注",
	"In line":                         "排队者",
	"Nobody waits.":                   "没有人排队。",
	"Waited":                          "已等待",
	"Gives up in":                     "放弃还剩",
	"Timeline":                        "时间线",
	"Nothing is known of it.":         "没有它的记录。",
	"held":                            "持有",
	"lost":                            "丢失",
	"waited":                          "等待",
	"not granted":                     "没有等到",
	"from %s to %s, %s":               "从 %s 到 %s，%s",
	"The newest %d tokens are drawn.": "只画出最近的 %d 个 token。",
	"History":                         "历史",
	"Time (UTC)":                      "时间（UTC）",
	"Event":                           "事件",
	"By":                              "由",
	"Details":                         "详情",
	"Known since %s (UTC).":           "记录始于 %s（UTC）。",
	"What became of it?":              "后来怎样？",
	"waited %s":                       "等待了 %s",
	"held %s":                         "持有了 %s",
	"lease %s":                        "租约 %s",
	"renewed %d times":                "续租 %d 次",
	"reason: %s":                      "原因：%s",
	"note: %s":                        "备注：%s",
	"granted":                         "获得",
	"released":                        "释放",
	"expired":                         "到期",
	"deleted":                         "被删除",
	"overwritten":                     "被覆盖",
	"forced":                          "被强制结束",
	"moved":                           "被改名",
	"flushed":                         "数据库被清空",
	"swapped":                         "数据库被交换",
	"gave-up":                         "等待超时",
	"left":                            "离开队列",
	"gone":                            "客户端断开",
	"replaced":                        "被另一连接接替",
	"refused":                         "被拒绝",
	"End this lock by force":          "强制结束这把锁",
	"The holder goes on working as if it had the lock: only the fence keeps its writes out.": "持有者并不知道，会继续工作：只有 fence 能挡住其之后的写入。",
	"Whose":                                "谁的",
	"everybody's":                          "所有持有者的",
	"Reason":                               "原因",
	"it is written down":                   "会写入记录",
	"End it":                               "强制结束",
	"Holders that have lost the lock: %d.": "失去这把锁的持有者：%d 个。",
	"Nobody has lost it: it was not held so any more.": "没有人失去它：它已不再被这样持有。",
	"Node":                "节点",
	"Role":                "角色",
	"State":               "状态",
	"Applied":             "已应用",
	"Clients":             "客户端地址",
	"Peer":                "节点间地址",
	"leader":              "主节点",
	"follower":            "从节点",
	"voter":               "有投票权",
	"nonvoter":            "无投票权",
	"up":                  "正常",
	"down":                "无应答",
	"behind by %d":        "落后 %d",
	"No leader is known.": "现在没有主节点。",
	"The leader is %s.":   "主节点是 %s。",
	"Level in force: %d.": "生效的级别：%d。",
	"Levels":              "级别",
	"%d to %d":            "%d 到 %d",
	"Nothing is wrong with the locking that was seen.": "观察到的用锁方式没有问题。",
	"Seen at node %s since %s (UTC).":                  "节点 %s 从 %s（UTC）起观察到的。",
	"Advice":                                           "建议",
	"mistake":                                          "问题", "keys": "锁名", "count": "次数", "example": "例子", "client": "客户端",
	"acquisitions": "获得次数", "hold-p50-ms": "持有 p50（毫秒）", "hold-p99-ms": "持有 p99（毫秒）", "hold-max-ms": "最长持有（毫秒）",
	"lease-ms": "租约（毫秒）", "expired-in-use": "使用中到期",
	"wait-p50-ms": "等待 p50（毫秒）", "wait-p99-ms": "等待 p99（毫秒）", "lease-enough-ms": "够用的租约（毫秒）",
	"The node answers: %s": "节点回答：%s",
	"all locks":            "所有锁",
	"A reason is needed.":  "请填写原因。",
	"This page needs the password with which clients authenticate.": "请输入客户端认证用的密码。",
}

// duration formats a duration for people: 350 ms, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h.
func duration(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return twoUnits(s/60, "min", s%60, "s")
	case s < 86400:
		return twoUnits(s/3600, "h", s/60%60, "min")
	}
	return twoUnits(s/86400, "d", s/3600%24, "h")
}

func twoUnits(n int64, unit string, m int64, smaller string) string {
	if m == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, m, smaller)
}

// printable escapes characters in a client's text that are invisible, or would change how the rest is read.
func printable(s string) string {
	var b strings.Builder
	shown := 0
	for i, r := range s {
		if shown++; shown > shownRunesMax {
			b.WriteString("...")
			break
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// clock formats a time in UTC, without the date if that is today; "" for the zero time.
func clock(t, now time.Time) string {
	const day, hour = "2006-01-02", "15:04:05.000"
	t, now = t.UTC(), now.UTC()
	switch {
	case t.IsZero():
		return ""
	case t.Format(day) == now.Format(day):
		return t.Format(hour)
	}
	return t.Format(day + " " + hour)
}
