"""Fillings for the sentences of templates.py, written for it: names, places, things, doings. Data and nothing else."""

SLOTS = {
    # People
    "woman": (
        "Mary|Anna|Julia|Helen|Rose|Margaret|Lucy|Clara|Sophie|Emma|Nora|Alice|Grace|Ruth|Martha|Ellen|Jane|Laura|"
        "Irene|Beth|Olivia|Hannah|Rachel|Sarah|Diane|Carol|Angela|Theresa|Joan|Sylvia|Zoe|Maya|Priya|Leila|Ingrid|"
        "Yasmin|Chloe|Fiona|Naomi|Harriet|Charlotte|Caroline|Judith|Vera|Agnes|Penelope|Beatrice|Florence|Georgia|"
        "Isabel"
    ),
    "man": (
        "John|Peter|Thomas|Henry|George|Arthur|Jack|Daniel|Samuel|David|Michael|Robert|William|Edward|Frank|Oscar|"
        "Leo|Max|Walter|Hugh|Paul|Mark|Simon|Andrew|Martin|Victor|Ralph|Theo|Oliver|Nathan|Adam|Joseph|Stephen|"
        "Philip|Gordon|Ahmed|Carlos|Ivan|Kenji|Omar|Patrick|Vincent|Douglas|Benjamin|Christopher|Jeremy|Roger|Eric|"
        "Stanley|Graham"
    ),
    "name": "{woman}|{man}",
    "surname": (
        "Smith|Brown|Taylor|Walker|Harris|Clark|Lewis|Hall|Young|King|Wright|Baker|Carter|Turner|Parker|Collins|"
        "Stewart|Morris|Murphy|Cook|Rogers|Bell|Ward|Gray|Hughes|Price|Foster|Jenkins|Perry|Long|Patterson|Griffin|"
        "Hayes|Ford|Graham|Sullivan|Wallace|Woods|Cole|West|Jordan|Owens|Reynolds|Fisher|Ellis|Harrison|Gibson|"
        "McDonald|O’Brien|Nguyen|Kowalski|Fernandez|Yamamoto|Lindqvist|Thornton|Whitfield|Abernathy|Blackwood|"
        "Chamberlain|Dalrymple"
    ),
    "title": (
        "Mr.|Mrs.|Dr.|Miss|Mr.|Mrs.|Professor|Captain|Prof.|Capt.|Judge|Sergeant|Father|Sister|Lady|Lord|Aunt|"
        "Uncle|President|Senator|Detective|Inspector|Ms."
    ),
    "person": (
        "{name}|{name}|{title} {surname}|{name} {surname}|the {job}|the {adj} {job}|my {kin}|her {kin}|our {kin}|"
        "the {kin} of the {job}|old {title} {surname}"
    ),
    "kin": (
        "mother|father|brother|sister|aunt|uncle|cousin|grandmother|grandfather|neighbour|husband|wife|daughter|"
        "son|nephew|niece|friend|best friend|landlady|partner|boss|colleague|roommate"
    ),
    "job": (
        "teacher|doctor|nurse|farmer|baker|engineer|lawyer|sailor|soldier|painter|plumber|gardener|librarian|"
        "journalist|pilot|captain|waiter|waitress|singer|guitarist|programmer|scientist|driver|conductor|butcher|"
        "carpenter|mechanic|electrician|architect|accountant|secretary|manager|clerk|guard|hunter|fisherman|"
        "shepherd|tailor|dentist|surgeon|chemist|judge|mayor|priest|student|postman|photographer|translator|actor|"
        "actress|dancer|director|editor|author|poet|stranger|old man|young woman|boy|girl|child|visitor|customer|"
        "passenger|tourist|thief|burglar|detective|inspector|widow|heiress|orphan|king|queen|princess|knight|wizard"
    ),
    "people": (
        "children|students|soldiers|workers|farmers|neighbours|guests|passengers|tourists|doctors|lawyers|sailors|"
        "men|women|boys|girls|twins|villagers|scientists|engineers|musicians|dancers|teachers|visitors|strangers|"
        "players|voters|protesters|shareholders|readers|volunteers|parents|cousins|hikers|thieves"
    ),
    "pronoun": "he|she|I|we|they|you",
    "subject": (
        "{person}|{person}|{pronoun}|{pronoun}|the {people}|the {animal}|two {people}|some of the {people}|"
        "everyone|nobody|someone|each of us|most {people}|all of them|neither of them|the {thing}"
    ),
    # Places
    "city": (
        "London|Paris|Rome|Berlin|Vienna|Madrid|Lisbon|Dublin|Edinburgh|New York|Boston|Chicago|San Francisco|"
        "Los Angeles|Seattle|Toronto|Montreal|Sydney|Melbourne|Tokyo|Osaka|Beijing|Shanghai|Cairo|Nairobi|"
        "Cape Town|Istanbul|Athens|Prague|Budapest|Warsaw|Moscow|St. Petersburg|Stockholm|Oslo|Helsinki|Copenhagen|"
        "Amsterdam|Brussels|Geneva|Zurich|Barcelona|Naples|Venice|Florence|Mumbai|Bangkok|Singapore|Mexico City|"
        "Buenos Aires|Havana|Philadelphia|Denver|Houston|New Orleans|Manchester|Liverpool|Oxford|Cambridge|York|"
        "Bristol"
    ),
    "country": (
        "France|Italy|Spain|Germany|England|Scotland|Ireland|Wales|Norway|Sweden|Finland|Denmark|Poland|Russia|"
        "Greece|Turkey|Egypt|Morocco|Kenya|South Africa|India|China|Japan|Australia|New Zealand|Canada|Mexico|"
        "Brazil|Argentina|Chile|Peru|Portugal|Austria|Switzerland|Hungary|Romania|Iceland|Vietnam|Thailand|"
        "Indonesia|the Netherlands|the United States"
    ),
    "place": (
        "the kitchen|the garden|the library|the station|the market|the harbour|the office|the hospital|the school|"
        "the theatre|the museum|the church|the park|the forest|the beach|the bridge|the hotel|the airport|"
        "the bakery|the cellar|the attic|the corridor|the courtyard|the village|the valley|the island|"
        "the laboratory|the factory|the prison|the palace|the restaurant|the café on the corner|the post office|"
        "the supermarket|the playground|the stadium|the top of the hill|the edge of the woods|"
        "the other side of the river|the back of the room|the middle of the street|St. {man}’s Church|"
        "{surname} Street|{surname} Avenue|{city}|{city}|{country}|the north of {country}|the outskirts of {city}"
    ),
    "at": (
        "in the kitchen|in the garden|in the library|at the station|at the market|in the harbour|at the office|"
        "in hospital|at school|in the theatre|at the museum|in church|in the park|in the forest|on the beach|"
        "under the bridge|at the hotel|at the airport|outside the bakery|down in the cellar|up in the attic|"
        "along the corridor|across the courtyard|in the village|beyond the valley|on the island|in the laboratory|"
        "behind the factory|on the roof|by the window|beside the fire|at the table|in {city}|near {city}|"
        "in {country}|in the north of {country}|on {surname} Street|at number {room}, {surname} Avenue|"
        "on the train to {city}|halfway between {city} and {city}"
    ),
    # Things
    "animal": (
        "dog|cat|horse|cow|sheep|goat|fox|wolf|bear|lion|tiger|elephant|mouse|rat|rabbit|squirrel|owl|eagle|"
        "sparrow|crow|raven|goose|duck|swan|chicken|turkey|frog|toad|snake|lizard|turtle|shark|whale|dolphin|seal|"
        "bee|wasp|butterfly|spider|beetle|donkey|camel|monkey|parrot|penguin|hedgehog|badger|otter|deer|kitten|"
        "puppy"
    ),
    "food": (
        "bread|butter|cheese|soup|rice|pasta|chicken|beef|pork|lamb|fish|salmon|tuna|eggs|bacon|ham|salad|tomatoes|"
        "potatoes|onions|carrots|mushrooms|beans|peas|cabbage|spinach|garlic|apples|pears|oranges|lemons|grapes|"
        "cherries|strawberries|peaches|plums|bananas|chocolate|honey|jam|sugar|flour|milk|cream|yoghurt|coffee|tea|"
        "wine|beer|cider|juice|water|cake|biscuits|pie|pancakes|ice cream|pudding|sandwiches|sausages|olives|"
        "walnuts|almonds|cinnamon|ginger|pepper|salt|vinegar|mustard|crème brûlée"
    ),
    "thing": (
        "letter|book|newspaper|key|lamp|clock|watch|mirror|picture|photograph|map|box|basket|bottle|glass|cup|"
        "plate|knife|spoon|fork|chair|table|desk|bed|blanket|pillow|coat|hat|glove|shoe|umbrella|suitcase|bag|"
        "wallet|purse|ring|necklace|candle|match|pipe|violin|piano|guitar|drum|trumpet|telephone|radio|television|"
        "computer|laptop|camera|bicycle|car|truck|bus|train|boat|ship|plane|engine|wheel|rope|chain|hammer|nail|"
        "saw|shovel|ladder|bucket|broom|door|window|wall|roof|stair|gate|fence|stone|coin|ticket|envelope|stamp|"
        "pencil|pen|notebook|diary|document|contract|painting|statue|vase|carpet|curtain|drawer|cupboard|shelf|"
        "keyboard|screen|battery|machine|tool|weapon|sword|gun|bomb|flag|tent|torch|whistle|bell|telescope|"
        "microscope|parcel|package|message|report|treasure|secret|recipe"
    ),
    "things": (
        "letters|books|newspapers|keys|lamps|clocks|watches|mirrors|pictures|photographs|maps|boxes|baskets|"
        "bottles|glasses|cups|plates|knives|spoons|chairs|tables|blankets|pillows|coats|hats|gloves|shoes|"
        "umbrellas|suitcases|bags|rings|candles|matches|pipes|violins|telephones|computers|cameras|bicycles|cars|"
        "trucks|buses|trains|boats|ships|planes|wheels|ropes|chains|hammers|nails|ladders|buckets|brooms|doors|"
        "windows|walls|stones|coins|tickets|envelopes|stamps|pencils|notebooks|documents|paintings|statues|flowers|"
        "leaves|branches|clouds|waves|stars|bushes|rocks|roads|houses|churches|towers|bridges|machines|tools|"
        "swords|flags|tents|bells|parcels|messages|reports|questions|answers|mistakes|rumours|promises|memories"
    ),
    "stuff": (
        "the truth|the weather|the future|the past|the price of {food}|the results|the evidence|the government|"
        "the economy|the climate|the war|the election|the meeting|the budget|the schedule|the contract|"
        "the experiment|the funeral|the wedding|the journey|the journey to {city}|the accident|the murder|"
        "the inheritance|music|mathematics|history|philosophy|chemistry|politics|religion|medicine|justice|freedom|"
        "friendship|courage|patience|silence|loneliness|happiness|jealousy|revenge|money|software|electricity|"
        "gravity|evolution|football|chess|poetry|gardening|the whole affair|the {adj} {thing}|"
        "the life of the {animal}"
    ),
    # Qualities
    "adj": (
        "old|young|big|small|tall|short|long|narrow|wide|deep|shallow|heavy|light|dark|bright|pale|red|blue|green|"
        "yellow|black|white|brown|grey|golden|silver|wooden|broken|empty|full|clean|dirty|dusty|wet|dry|warm|cold|"
        "hot|cool|frozen|soft|hard|rough|smooth|sharp|dull|quiet|loud|silent|noisy|quick|slow|sudden|strange|"
        "curious|ordinary|beautiful|ugly|pretty|lovely|terrible|horrible|wonderful|marvellous|awful|pleasant|"
        "gentle|fierce|brave|timid|shy|proud|humble|honest|clever|stupid|foolish|wise|happy|sad|angry|nervous|"
        "anxious|calm|tired|sleepy|hungry|thirsty|sick|healthy|rich|poor|cheap|expensive|famous|unknown|mysterious|"
        "dangerous|safe|careful|careless|lazy|busy|serious|funny|ridiculous|absurd|important|useless|useful|"
        "necessary|impossible|enormous|tiny|gigantic|ancient|modern|new|foreign|distant|familiar|invisible|lonely|"
        "crowded|elegant|clumsy|generous|greedy|cruel|kind|polite|rude|stubborn|faithful|jealous|innocent|guilty|"
        "unhappy|unusual|unexpected|extraordinary|naïve|thoughtful|cheerful|melancholy|delicate|magnificent|"
        "peculiar|weary|weathered|half-finished|well-known|old-fashioned|left-handed"
    ),
    "feel": (
        "happy|sad|angry|nervous|anxious|calm|tired|sleepy|hungry|thirsty|sick|proud|ashamed|jealous|guilty|lonely|"
        "curious|surprised|astonished|disappointed|relieved|grateful|afraid|frightened|terrified|confused|bored|"
        "excited|delighted|embarrassed|furious|hopeful|hopeless|uneasy|ready|sure|certain|right|wrong|late|early|"
        "alone|awake|asleep|busy|free|serious|at home|out of breath|in a hurry|beside himself"
    ),
    "adv": (
        "slowly|quickly|quietly|softly|loudly|suddenly|carefully|carelessly|gently|roughly|happily|sadly|angrily|"
        "nervously|anxiously|calmly|proudly|bravely|politely|rudely|honestly|foolishly|wisely|patiently|"
        "impatiently|eagerly|reluctantly|silently|secretly|openly|immediately|gradually|finally|certainly|probably|"
        "apparently|unfortunately|fortunately|obviously|strangely|deliberately|accidentally|occasionally|"
        "frequently|rarely|thoroughly|completely|entirely|absolutely|thoughtfully|cheerfully|wearily|bitterly|"
        "desperately|gracefully|awkwardly|mysteriously|enthusiastically|sheepishly"
    ),
    "degree": (
        "very|rather|quite|too|so|extremely|unusually|surprisingly|a little|much too|terribly|particularly|hardly|"
        "almost|not very|not at all"
    ),
    # Doings
    "did": (
        "{trans} the {thing}|{trans} the {adj} {thing}|{trans} {count} {things}|{trans} a {thing}|"
        "{trans} some {food}|{intrans}|{intrans} {adv}|{intrans} {at}|{adv} {trans} the {thing}|{trans} {person}|"
        "{spoke} about {stuff}|{intrans} and {intrans}|{trans} the {thing} and {intrans}|{went} to {place}|"
        "{went} to {place} {when}|{trans} a {adj} {thing} {at}|was {degree} {feel}|seemed {feel}|"
        "felt {degree} {feel}|had never {seen} such a {adj} {thing}|couldn’t {do}|didn’t {do}|would {do}|"
        "had to {do}|wanted to {do}|decided to {do}|refused to {do}|forgot to {do}|began to {do}|"
        "tried to {do} but {intrans}|stopped {doing}|kept {doing}|went on {doing}"
    ),
    "trans": (
        "found|lost|took|opened|closed|broke|mended|bought|sold|stole|hid|painted|cleaned|washed|dropped|picked up|"
        "threw away|lifted|pushed|pulled|carried|held|touched|kicked|watched|saw|noticed|examined|studied|"
        "described|remembered|forgot|mentioned|ignored|admired|hated|loved|feared|followed|chased|caught|missed|"
        "counted|measured|weighed|moved|turned|shook|squeezed|burned|buried|dug up|built|designed|invented|"
        "discovered|returned|borrowed|offered|refused|accepted|received|sent|brought|fetched|wrapped|emptied|"
        "filled|covered|uncovered|checked|tested|repaired|replaced|removed|ordered|delivered|sketched|photographed|"
        "inherited|swallowed|recognized|polished|smashed|guarded"
    ),
    "intrans": (
        "laughed|smiled|cried|wept|shouted|whispered|sighed|coughed|sneezed|yawned|slept|woke up|got up|sat down|"
        "stood up|lay down|fell over|jumped|ran away|walked home|waited|listened|looked around|nodded|shrugged|"
        "blushed|trembled|shivered|hesitated|disappeared|vanished|arrived|left|returned|stayed|worked|rested|"
        "danced|sang|swam|climbed|stumbled|slipped|crawled|knelt|prayed|argued|agreed|apologized|complained|"
        "confessed|lied|cheated|won|lost|gave up|went out|came back|grew up|died|survived|recovered|changed|"
        "hurried|paused|frowned|grinned|stared|winked|whistled|snored|wandered off|turned pale|looked away|"
        "said nothing|kept still|thought it over"
    ),
    "spoke": (
        "spoke|talked|wrote|thought|asked|argued|dreamed|knew|heard|complained|worried|laughed|cared|joked|read|"
        "sang|lied"
    ),
    "went": (
        "went|walked|ran|drove|sailed|flew|travelled|moved|came|returned|hurried|cycled|wandered|rode|crept|marched"
    ),
    "seen": "seen|heard of|owned|touched|dreamed of|bought|found|painted|used|wanted",
    "do": (
        "open the {thing}|close the {thing}|find the {thing}|answer|sleep|leave|stay|wait|eat the {food}|"
        "cook {food}|read the {thing}|write to {person}|speak to {person}|visit {person}|go to {place}|come back|"
        "think about {stuff}|talk about {stuff}|understand {stuff}|explain {stuff}|help {person}|"
        "follow the {animal}|feed the {animal}|catch the {animal}|buy {food}|sell the {thing}|pay {money}|"
        "tell the truth|change the subject|learn {stuff}|forget {person}|marry {person}|trust {person}|"
        "leave for {city}|start again|swim|dance|sing|drive|play the {instrument}|wash the {things}|"
        "count the {things}|put the {thing} back|carry the {thing}|look for {person}|hear the {thing}|"
        "keep the {thing}|wake {person}|laugh|cry|smile|move|breathe|say a word|get up before {clock}|be {feel}|"
        "believe it|remember {person}’s name"
    ),
    "doing": (
        "opening the {thing}|looking for the {thing}|sleeping|waiting for {person}|eating {food}|cooking {food}|"
        "reading the {thing}|writing {things}|talking to {person}|walking towards {place}|thinking about {stuff}|"
        "talking about {stuff}|helping {person}|following {person}|feeding the {animal}|buying {things}|working|"
        "swimming|dancing|singing|driving|playing the {instrument}|washing the {things}|counting the {things}|"
        "carrying the {thing}|listening|laughing|crying|smiling|shivering|whispering|complaining|asking questions|"
        "drinking {food}|painting the {thing}|running|staring at the {thing}"
    ),
    "instrument": "piano|violin|guitar|flute|trumpet|drums|cello|organ|harp|accordion|clarinet|saxophone",
    # Time
    "month": "January|February|March|April|May|June|July|August|September|October|November|December",
    "weekday": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "season": "spring|summer|autumn|winter",
    "when": (
        "yesterday|today|tonight|last night|last week|last year|this morning|this afternoon|on {weekday}|"
        "on {weekday} morning|last {weekday}|in {month}|in {year}|in the {season}|in the {season} of {year}|"
        "at {clock}|at {clock} in the morning|at {clock} in the afternoon|before dawn|after dinner|at midnight|"
        "at noon|every day|every {weekday}|once a {weekday}|{count} years ago|{count} days later|a moment ago|"
        "an hour later|for {count} hours|for the {rank} time|on the {ordinal} of {month}|"
        "on {month} {ordinal}, {year}|all night long|from {clock} until {clock}|sooner or later|at last|"
        "again and again|by the end of the century|during the war"
    ),
    "time": "{clock}|{clock}|noon|midnight|exactly {clock}|nearly {clock}|just after {clock}",
    # Talk
    "said": (
        "said|said|said|asked|replied|answered|whispered|shouted|cried|murmured|muttered|exclaimed|explained|"
        "repeated|added|insisted|admitted|suggested|continued|sighed|laughed|called|snapped|agreed|went on|began|"
        "grumbled|announced|declared"
    ),
    "speaker": "{name}|{name}|he|she|I|the {job}|{title} {surname}|her {kin}|my {kin}|the {adj} {job}|they",
    "tag": (
        "{said} {speaker}|{speaker} {said}|{said} {speaker} {adv}|{speaker} {said}, {doing}|"
        "{said} the {job}, {doing}|{speaker} {said} in a {adj} voice"
    ),
    "hello": (
        "Hello|Good morning|Good evening|Good night|Good afternoon|Hi|Hey|Welcome|Welcome back|Goodbye|Farewell|"
        "Thank you|Thanks|Many thanks|Sorry|Excuse me|I beg your pardon|Please|Congratulations|Happy birthday|"
        "Merry Christmas|Good luck|Well done|Bravo|Cheers|Take care|See you on {weekday}|See you tomorrow"
    ),
    "oh": (
        "Oh|Ah|Well|Yes|No|Indeed|Really|Of course|Certainly|Never|Nonsense|Perhaps|Maybe|Exactly|Quite so|"
        "Not at all|Never mind|Listen|Look|Wait|Come now|Good heavens|My dear|My goodness|Alas|Hush|Hurry|Stop|"
        "Enough|All right|Very well|I see|Look here|To tell the truth|Frankly|Honestly|Between you and me|Okay|"
        "Right|Sure|Wow|Hmm|Aha"
    ),
    "please": (
        "Open the {thing}|Close the {thing}|Come in|Sit down|Stand up|Go away|Come back|Wait {at}|Follow me|"
        "Follow {person}|Give me the {thing}|Give {person} the {thing}|Bring some {food}|Pass the {food}|"
        "Don’t {do}|Never {do}|Try to {do}|Tell me about {stuff}|Look at the {thing}|Listen to {person}|Be {feel}|"
        "Be quiet|Put the {thing} down|Take the {thing} to {person}|Remember to {do}|Let me {do}|Let us {do}|"
        "Let’s {do}|Turn left {at}|Turn right after {count} miles|Count to {count}|Hold the {thing}"
    ),
    "foreign": (
        "café|naïve|fiancé|cliché|façade|résumé|Zoë|Brontë|Æsop|Cæsar|jalapeño|piñata|José|François|Müller|Renée|"
        "protégé|soufflé|exposé|André|Chloë|Noël|señor|Málaga|Göteborg|Dvořák|purée|sauté|rosé|touché"
    ),
    "word": (
        "{thing}|{foreign}|{animal}|{food}|{things}|{adj}|{adv}|{name}|{surname}|{city}|{country}|{month}|"
        "{weekday}|{job}|{number}|{instrument}"
    ),
    "linker": (
        "but|and|so|because|although|while|when|until|before|after|since|as|unless|if|for|yet|whereas|as soon as|"
        "even though|whether or not|so that|in case|as if|now that"
    ),
    "opener": (
        "In the end|At first|However|Therefore|Of course|For example|In fact|After all|As usual|By the way|"
        "Meanwhile|Nevertheless|Besides|On the other hand|In other words|To be honest|Without a word|"
        "Every now and then|From time to time|For the {rank} time|After {count} days|At {clock}|In {year}|"
        "Last {weekday}|On the {ordinal} of {month}|One {adj} morning|One {season} evening|Long ago|"
        "Not far from {place}|Somewhere in {country}|With a {adj} smile|To everyone’s surprise|"
        "According to {person}|Instead of {doing}|Before {doing}|After {doing}|Like most {people}"
    ),
    "science": (
        "the temperature|the speed of light|the population of {city}|the population of {country}|"
        "the distance to the moon|the size of the {thing}|the weight of the {animal}|the price of {food}|"
        "the rate of interest|the number of {people}|the number of {things}|the length of the {thing}|"
        "the cost of the {thing}"
    ),
    "unit": (
        "metres|miles|kilometres|feet|inches|pounds|kilograms|degrees|percent|litres|seconds|minutes|hours|days|"
        "weeks|years|acres|tons|gallons|volts|watts|pages|steps"
    ),
    "headnoun": (
        "House|Letter|Storm|River|Garden|Stranger|Journey|Secret|Return|Voyage|Lighthouse|Inheritance|Winter|Tower|"
        "Key|Clock|Mountain|Murder|Wedding|Island|Promise|Silence|Bridge|Mirror|Map|Thief|Daughter|Captain|Night|"
        "Morning|Shadow|Orchard|Road|Sea|Train|Visitor|Museum|Experiment|Treasure|Forest|Funeral"
    ),
    "headadj": (
        "Old|Lost|Last|First|Silent|Broken|Hidden|Golden|Empty|Long|Dark|Forgotten|Strange|Red|White|Final|Curious|"
        "Secret|Burning|Frozen|Second|Invisible|Unexpected|Little|Great"
    ),
    "abbr": "the FBI|the BBC|the USA|NASA|NATO|the CEO|the UN|the EU|the TV|a DNA test|the GPS|a USB cable",
}  # fmt: skip
